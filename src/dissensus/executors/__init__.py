"""Who computes the specs of a plan. What happens is told as events; results go through the ledger alone.

events.py      what is told
agenda.py      which spec is next
computing.py   runs under claims, one or several that are alike
stopping.py    Ctrl-C
local.py       in this process, or a pool of worker processes
ray.py         on a cluster; ray_tasks.py is what runs there
"""

from dissensus.executors.agenda import Agenda
from dissensus.executors.computing import compute
from dissensus.executors.events import ENDINGS, Event, Listen
from dissensus.executors.jobs import Job

__all__ = ["ENDINGS", "Agenda", "Event", "Job", "Listen", "compute"]
