"""Every figure of made-up runs, and what is written in it."""

import itertools

import plot_beta_traces
import plot_cost
import plot_degeneracy
import plot_learning_curves
import plot_reliability
import plot_schedules
from helpers.fake_traces import bins_of, summary_of, traces_of
from lib import style

FIGURES = {
    "schedules": lambda study: plot_schedules.draw(traces_of(study)),
    "cost": lambda study: plot_cost.draw(summary_of(study)),
    "learning_curves": lambda study: plot_learning_curves.draw(traces_of(study)),
    "degeneracy": lambda study: plot_degeneracy.draw(traces_of(study)),
    "reliability": lambda study: plot_reliability.draw(bins_of(study)),
    "beta_traces": lambda study: plot_beta_traces.draw(
        traces_of(study | {"scheme": ["smooth_data_annealing"]})
    ),
}


def labelled(panel, label):
    """The panel's one line of this name."""
    (line,) = [line for line in panel.lines if line.get_label() == label]
    return line


def texts(figure):
    """Everything written in the figure; of the tick labels, those inside the axis's limits."""
    found = [text for legend in legends(figure) for text in legend.get_texts()]
    for panel in figure.axes:
        found += [panel.title, panel.xaxis.label, panel.yaxis.label, *panel.texts]
        for axis in (panel.xaxis, panel.yaxis):
            low, high = axis.get_view_interval()
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in found if text.get_text() and text.get_visible()]


def legends(figure):
    return [legend for legend in [*figure.legends, *(panel.get_legend() for panel in figure.axes)] if legend]


def all_text_fits(figure):
    """Nothing is cut off, and no text is on top of another."""
    assert figure.get_figwidth() in (style.COLUMN, style.PAGE)
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    assert len(boxes) > 5
    for text, box in boxes:
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width, text
        assert box.y0 >= 0 and box.y1 <= figure.bbox.height, text
    for (one, box), (other, another) in itertools.combinations(boxes, 2):
        assert not box.overlaps(another), (one, other)
