"""The InferenceCluster operator: one declaration in, a running inference endpoint out."""

__version__ = "0.1.0"
