"""A real Kubernetes control plane whose pods are local processes: a development and test tool.

The operator never imports this package. `tools/sandbox --help` is the manual; `sandbox.client.Sandbox`
is the same thing for tests and demos.
"""
