"""Parameters of fitted estimators by name, as scikit-learn reads and sets them, without scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

__all__ = ["Parameters"]

Self = TypeVar("Self", bound="Parameters")


class Parameters:
    """What ``sklearn.base.clone`` and searches over parameters need of an estimator.

    A class with it keeps each argument of its constructor, unchanged, in an attribute of its name.

    Examples
    --------
    >>> from fastmcmd._base.params import Parameters
    >>> class Ridge(Parameters):
    ...     def __init__(self, lam=0.1): self.lam = lam
    >>> Ridge().set_params(lam=0.2).get_params()
    {'lam': 0.2}
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name.

        Parameters
        ----------
        deep : bool
            Taken for scikit-learn's sake: no argument here is an estimator with parameters of its own.
        """
        del deep
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self: Self, **params: Any) -> Self:
        """Set arguments of the constructor by name; returns itself. What was fitted stays as it was.

        Raises
        ------
        ValueError
            A name that the constructor does not have; nothing is set then.
        """
        known = self._parameter_names()
        for name in params:
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; there are {', '.join(known)}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
