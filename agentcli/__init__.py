"""agentcli: a terminal coding agent that executes, records and guards what a model asks for."""

__version__ = "0.1.0"
