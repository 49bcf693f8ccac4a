"""Software changes with evidence in a characterization, on the same gain scale as levers."""

from codesign.recommend.software.assess import assess, software
from codesign.recommend.software.draft import Draft, Effect, Reach, Rule, step_after
from codesign.recommend.software.look import Look
from codesign.recommend.software.registry import RULES

__all__ = ["RULES", "Draft", "Effect", "Look", "Reach", "Rule", "assess", "software", "step_after"]
