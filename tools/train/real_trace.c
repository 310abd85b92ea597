/* The last step of real training as a trace; see real.h. */
#include <stdio.h>

#include "runtime/status.h"
#include "tools/train/real.h"

int tutti_train_real_trace(const struct tutti_args *args, const struct tutti_train_real *real,
                           struct tutti_sink *sink, struct tutti_err *err)
{
    const tutti_ps scale = real->emulation.topo != NULL ? (tutti_ps)real->emulation.scale : 1;
    struct tutti_record record = real->record;
    struct tutti_train_pieces pieces = {.count = 0};
    char title[256];
    int status;

    for (size_t i = 0; i < record.event_count; i++) { /* in the time of the emulated machine */
        record.events[i].start_ps /= scale;
        record.events[i].end_ps /= scale;
    }
    (void)snprintf(title, sizeof(title), "%.64s by %.64s, step %llu", real->model->name,
                   real->strategy.name, (unsigned long long)tutti_trainer_steps(real->trainer));
    if (record.event_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '--trace': no step was made");
    status = tutti_train_pieces_make(tutti_trainer_schedule(real->trainer), &record, &pieces, err);
    if (status == 0)
        status = tutti_train_pieces_trace(&pieces, &record, tutti_args_text(args, "trace"), title,
                                          sink, err);
    tutti_train_pieces_done(&pieces);
    return status;
}
