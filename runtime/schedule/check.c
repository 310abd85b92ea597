/* The check: everything that must hold of a schedule whatever it is meant to compute. */
#include "runtime/schedule.h"
#include "runtime/schedule/clock.h"
#include "runtime/schedule/dry_run.h"
#include "runtime/status.h"

/* ---- calls: that members of a group come to the same ones ------------------------------------ */

static int nothing(void *user, struct tutti_dry_run *run, struct tutti_dry_run_chain *chain,
                   struct tutti_dry_run_message *message, struct tutti_err *err)
{
    (void)user;
    (void)run;
    (void)chain;
    (void)message;
    (void)err;
    return 0;
}

static int take_place(void *user, struct tutti_dry_run *run, struct tutti_dry_run_meeting *meeting,
                      struct tutti_err *err)
{
    (void)user;
    (void)run;
    (void)meeting;
    (void)err;
    return 0;
}

/* A run in which a call waits for all of its group: what such a run cannot finish is refused, for a
 * collective may always wait for all. */
static int check_calls(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    static const struct tutti_dry_run_ops ops = {
        .step = nothing, .complete = nothing, .call = take_place};
    struct tutti_dry_run *run = NULL;
    int status = tutti_dry_run_new(schedule, &run, err);

    if (status == 0)
        status = tutti_dry_run_play(run, &ops, NULL, err);
    tutti_dry_run_free(run);
    return status;
}

int tutti_schedule_check(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    struct tutti_schedule *flat = NULL;
    int status = schedule->callee_count == 0 ? 0 : check_calls(schedule, err);

    if (status == 0)
        status = tutti_schedule_flatten(schedule, &flat, err);
    if (status == 0)
        status = tutti_clock_check(flat, false, err);
    if (status < 0 && flat != NULL && schedule->callee_count > 0)
        status = tutti_wrap(err, status, "with its calls laid out");
    tutti_schedule_free(flat);
    return status;
}
