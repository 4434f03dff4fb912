"""Which jobs share devices: groups of equal size that use them well together.

Jobs are matched in pairs of greatest total efficiency, pairs are matched again, and so on up to the
largest group: Muri's multi-round grouping (Zhao et al., SIGCOMM'22). Pairs are really merged only
while there are more jobs than devices; sharing is a means, not an end.
"""

from collections.abc import Sequence

import rustworkx

from weft.core.job import JobSpec
from weft.core.ports import InterleavingModel

Group = tuple[JobSpec, ...]
_SCALE = 10**6  # the matching takes whole numbers


class Grouping:
    """Groups for buckets of jobs, one bucket for each size."""

    def __init__(self, model: InterleavingModel, *, largest: int, matching: bool) -> None:
        self._model = model
        self._largest = largest
        self._matching = matching
        self._weights: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}

    def form(self, buckets: Sequence[Sequence[JobSpec]], devices: int) -> list[Group]:
        """Groups of every bucket, merged until they fit the devices or can be merged no more."""
        demand = sum(spec.asked for bucket in buckets for spec in bucket)
        if not self._matching:
            return self._in_blocks(buckets, demand - devices)
        groups: list[list[Group]] = [[(spec,) for spec in bucket] for bucket in buckets]
        for _ in range(self._largest):
            if demand <= devices:
                break
            demand = self._merge(groups, demand, devices)
        return [group for bucket in groups for group in bucket]

    def _merge(self, buckets: list[list[Group]], demand: int, devices: int) -> int:
        """One round: match within each bucket, and merge pairs while there is too much demand."""
        matched = [self._match(bucket) for bucket in buckets]
        for place, (bucket, partner) in enumerate(zip(buckets, matched, strict=True)):
            merged: list[Group] = []
            for index, group in enumerate(bucket):
                other = partner.get(index)
                if other is None:
                    merged.append(group)
                elif other < index and demand > devices:
                    merged.append(bucket[other] + group)
                    demand -= group[0].asked
                elif other < index:
                    merged += [bucket[other], group]
            buckets[place] = merged
        return demand

    def _match(self, groups: Sequence[Group]) -> dict[int, int]:
        """Partners in a matching of greatest weight, both ways."""
        kinds = [tuple(id(spec.profile) for spec in group) for group in groups]
        edges = [
            (one, other, self._weight(kinds[one], kinds[other], groups[one] + groups[other]))
            for one in range(len(groups))
            for other in range(one + 1, len(groups))
            if len(groups[one]) + len(groups[other]) <= self._largest
        ]
        graph: rustworkx.PyGraph[int, int] = rustworkx.PyGraph(multigraph=True)
        graph.add_nodes_from(range(len(groups)))
        graph.add_edges_from(edges)
        pairs = rustworkx.max_weight_matching(graph, max_cardinality=False, weight_fn=int)
        return {a: b for pair in pairs for a, b in (pair, pair[::-1])}

    def _weight(self, one: tuple[int, ...], other: tuple[int, ...], together: Group) -> int:
        known = self._weights.get((one, other))
        if known is None:
            known = round(_SCALE * self._model.efficiency(together))
            self._weights[one, other] = self._weights[other, one] = known
        return known

    def _in_blocks(self, buckets: Sequence[Sequence[JobSpec]], excess: int) -> list[Group]:
        """Without matching: neighbours in rank share, block by block, while there is an excess."""
        groups: list[Group] = []
        for bucket in buckets:
            for start in range(0, len(bucket), self._largest):
                head, *others = bucket[start : start + self._largest]
                block: Group = (head,)
                for spec in others:
                    if excess > 0:
                        block += (spec,)
                        excess -= spec.asked
                    else:
                        groups.append((spec,))
                groups.append(block)
        return groups
