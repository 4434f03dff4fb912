"""How fast jobs run and how long they take, learned by watching them: one learner for all.

`treadle simulate --belief learned` and the live controller run the code of this folder.

    observations.py   what was seen of a speed
    kinds.py          which jobs are alike
    averaging.py      what repeated measurements at one size come to
    curves.py         what is assumed of sizes that were not measured
    rules.py          the choices above as one value, for simulations and for records
    speeds.py         the measurements of one kind of jobs
    learner.py        Learner: observations in, speeds by size out
    outcome.py        what one attempt taught: time, work, speed, needs
    kind_history.py   what was learned of one kind, as stored
    proportion.py     whether a number of the command line says how much work there is
    knowledge.py      Knowledge: outcomes in, expectations out
    expectation.py    what is expected of a job, and what remains of it
    belief.py         Learned: what policies are given in the simulator
"""
