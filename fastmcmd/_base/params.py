"""Parameters of estimators by name, with scikit-learn's interface but without scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

__all__ = ["Parameters"]

Self = TypeVar("Self", bound="Parameters")


class Parameters:
    """The methods of an estimator that ``sklearn.base.clone`` and parameter searches use.

    Subclasses must store each constructor argument, unchanged, in an attribute of the same name.

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
            Accepted for compatibility with scikit-learn and ignored: no argument is itself an estimator.
        """
        del deep
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self: Self, **params: object) -> Self:
        """Set constructor arguments by name, and return the object. Fitted attributes do not change.

        Raises
        ------
        ValueError
            If the constructor has no argument of some name; nothing is set in this case.
        """
        valid_names = self._parameter_names()
        for name in params:
            if name not in valid_names:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; there are {', '.join(valid_names)}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
