"""Results with a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fastmcmd._base.tables import Notebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Plotted"]


class Plotted(Notebook):
    """A result that a function of `fastmcmd.plots` draws.

    Attributes
    ----------
    picture : str
        Name of the function.
    """

    picture: ClassVar[str]

    def plot(self, ax: Axes | None = None, **options: object) -> Axes:
        """Plot this with the function of `fastmcmd.plots` of that name, which describes the options."""
        from fastmcmd import plots

        axes: Axes = getattr(plots, self.picture)(self, ax, **options)
        return axes
