"""Names of a signature by what they are for."""

from __future__ import annotations

from typing import Collection

from ._artifact import INPUTS, TensorSpec


class Names:
    """Names of a signature by what they are for, in the order of the artifact."""

    def __init__(self, tensors: list[TensorSpec]) -> None:
        def of(*roles: str) -> tuple[str, ...]:
            return tuple(t.name for t in tensors if t.role in roles and not t.in_k)

        self.positional = of("q", "k", "v")
        self.inputs = of(*INPUTS)
        self.outputs = of("output", "final")
        self.finals = of("final")
        self.work = bool(of("work"))  # lists of work may be given, and made by themselves
        self.states = of("state")  # of a recurrence: "state_in", and where there is a norm "sum_in"
        self.states_out = of("state out")
        self.kept = of("kept", "kept row")
        self.kept_rows = of("kept row")
        self.keeps_output = bool(of("kept"))
        self.gradients = of("gradient")
        self.has_backward = bool(self.gradients)
        # "dx" is the gradient of x: those of finals and of the states after the last token are given, the others made
        self.dstates = of("dstate")  # made where there is an initial state
        self.differentiable = frozenset(name[1:] for name in self.gradients + self.dstates)
        self.dfinals = of("dfinal", "dstate out")  # a final that is a running maximum has none

    def gradients_of(self, tensors: Collection[str]) -> tuple[str, ...]:
        """The gradients that a backward pass of these tensors makes."""
        return self.gradients + tuple(name for name in self.dstates if name[1:] in tensors)
