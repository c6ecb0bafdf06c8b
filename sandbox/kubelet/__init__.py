"""A kubelet for the sandbox: pods are local processes, each pod in a network namespace of its own.

It speaks to a real API server as the kubelet of every node in its list and does a kubelet's work (admission,
volumes, containers, probes, graceful stop, status), with bubblewrap in the place of a container runtime. It
runs inside the plane's namespaces, as uid 0 of their user namespace.
"""
