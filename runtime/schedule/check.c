/* The check: everything that must hold of a schedule whatever it is meant to compute. */
#include "runtime/schedule.h"
#include "runtime/schedule/clock.h"
#include "runtime/status.h"

int tutti_schedule_check(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    struct tutti_schedule *flat = NULL;
    int status = tutti_schedule_flatten(schedule, &flat, err);

    if (status == 0)
        status = tutti_clock_check(flat, false, err);
    if (status < 0 && flat != NULL && schedule->callee_count > 0)
        status = tutti_wrap(err, status, "with its calls laid out");
    tutti_schedule_free(flat);
    return status;
}
