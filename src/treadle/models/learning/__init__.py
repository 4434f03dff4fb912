"""How fast jobs run and how long they take, learned by watching them: one learner for all.

`treadle simulate --belief learned` and the live controller run the code of this folder.

    kinds.py          which jobs are alike
    curves.py         what is assumed of sizes that were not measured
    speeds.py         measurements by size, and what repeated ones come to
    outcome.py        what one attempt taught: time, work, speed, needs
    kind_history.py   what was learned of one kind, as stored
    known_kinds.py    the kinds that are remembered, a bounded number
    kind_experts.py   what one kind says of a length, by several memories
    kept_experts.py   the same, until a share of what is known of the kind is new
    even_users.py     what newcomers are told: every user counts alike
    experts.py        forecasts scored and mixed
    confirmed.py      the range that a run confirmed, which does not become wider
    open_ranges.py    ranges of jobs that run, until they are compared
    proportion.py     whether a number of the command line says how much work there is
    knowledge.py      Knowledge: outcomes in, expectations out
    expectation.py    what is expected of a job, and what remains of it
    belief.py         Learned: what policies are given in the simulator
"""
