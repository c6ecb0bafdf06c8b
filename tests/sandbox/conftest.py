from tests.plugins.sandbox import sandbox

__all__ = ["sandbox"]
