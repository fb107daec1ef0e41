import unittest

import durations


class ParseTest(unittest.TestCase):
    def test_one_unit(self):
        self.assertEqual(durations.parse("45s"), 45)

    def test_units_add_up(self):
        self.assertEqual(durations.parse("1h30m"), 5400)


if __name__ == "__main__":
    unittest.main()
