"""How the exported page looks: by day and by night, on a phone and on paper."""

STYLE = """\
:root {
  color-scheme: light dark;
  --text: #1f2328; --soft: #59636e; --ground: #ffffff; --raised: #f6f8fa; --line: #d1d9e0;
  --good: #1a7f37; --bad: #cf222e; --added: #dafbe1; --removed: #ffebe9; --place: #ddf4ff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e6edf3; --soft: #9198a1; --ground: #0d1117; --raised: #161b22; --line: #30363d;
    --good: #3fb950; --bad: #f85149; --added: #12361f; --removed: #42171c; --place: #122d4a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 60rem;
  color: var(--text); background: var(--ground);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.4rem; line-height: 1.25; }
h2 { font-size: 0.9rem; color: var(--soft); margin: 2rem 0 0.25rem; }
h3 { font-size: 0.95rem; font-weight: normal; margin: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem; font-size: 0.9rem; }
dt { color: var(--soft); }
dd { margin: 0; }
.prompt {
  background: var(--raised); border-left: 3px solid var(--soft);
  padding: 0.5rem 0.75rem; white-space: pre-wrap;
}
.said { margin: 1rem 0 0; }
.said :is(h1, h2, h3, h4) {
  font-size: 1.05rem; font-weight: 600; color: var(--text); margin: 1rem 0 0;
}
.said table { border-collapse: collapse; display: block; overflow-x: auto; }
.said :is(td, th) { border: 1px solid var(--line); padding: 0.2rem 0.6rem; text-align: left; }
.sums, .outcome, .verdict, .note { color: var(--soft); font-size: 0.8rem; margin: 0.25rem 0; }
.note { white-space: pre-wrap; border-left: 3px solid var(--line); padding-left: 0.75rem; }
.call {
  border: 1px solid var(--line); border-radius: 6px; padding: 0.6rem 0.75rem; margin: 0.75rem 0;
}
.call.bad { border-color: var(--bad); }
.bad.verdict, .bad.ending, .call.bad .outcome { color: var(--bad); }
.ending { font-weight: 600; }
.ending.good { color: var(--good); }
pre {
  background: var(--raised); border-radius: 6px; padding: 0.6rem; margin: 0.5rem 0 0;
  font: 0.8rem/1.45 ui-monospace, monospace; overflow-x: auto; max-height: 40rem;
}
code { font: 0.85em ui-monospace, monospace; }
summary { color: var(--soft); font-size: 0.8rem; cursor: pointer; }
.diff span { display: block; width: max-content; min-width: 100%; }
.added { background: var(--added); }
.removed { background: var(--removed); }
.place { background: var(--place); color: var(--soft); }
img { max-width: 100%; }
"""
