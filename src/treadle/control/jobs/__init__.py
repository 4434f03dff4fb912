"""Jobs from submission to end: records, gates, launching, recovery."""

from treadle.control.jobs.attempts import company_views, replaced_text
from treadle.control.jobs.code_diffs import Diffs
from treadle.control.jobs.company_faults import COMPANY, parting
from treadle.control.jobs.company_judge import COMPANY_RECORD, CompanyJudge
from treadle.control.jobs.end_completion import EndCompletion, LastWords
from treadle.control.jobs.fact_subjects import Fact, core_facts, job_of, jobs_of
from treadle.control.jobs.facts_to_records import Reducer
from treadle.control.jobs.gates import ARRAY, DEPENDENCY, USER, Gates
from treadle.control.jobs.job_kinds import given_to, likeness_of
from treadle.control.jobs.job_table import (
    AttemptKey,
    JobTable,
    id_of,
    nodes_in,
    stored_state,
    stored_states,
)
from treadle.control.jobs.launching import Launcher, rank_count
from treadle.control.jobs.lost_nodes import LOST_NODES, LostNode, LostNodes
from treadle.control.jobs.pauses import away_s, ran_until
from treadle.control.jobs.records import JobRecord, accepted, attempt_of, record_of, row_of
from treadle.control.jobs.recovery import (
    ADDRESS,
    ENGINE,
    FIRST_NODES,
    NODES,
    OVERTAKEN,
    Restored,
    first_cluster,
    holding,
    nodes_at_start,
    nodes_of,
    refuse_other_engine,
    restore,
    text_of,
)
from treadle.control.jobs.refusals import MACHINE
from treadle.control.jobs.replay import Rebuilt
from treadle.control.jobs.respec import Respec, question_about, worked_s
from treadle.control.jobs.submission import (
    PROBABLY,
    Person,
    Submission,
    check_fits,
    check_nodes,
    checked,
    files_notes,
    given_name,
    kept_to_gpus,
    most_of_a_type,
    name_by_default,
    not_enforced,
    prepare,
)
from treadle.control.jobs.submit_again import submit_again
from treadle.control.jobs.unnamed_tenants import without_quota
from treadle.control.jobs.unwritten_cancels import UnwrittenCancels
from treadle.control.jobs.weights import text_bytes
