/* What the record of real steps is for: a trace, and what their pieces take; see real.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/files.h"
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

/* The process that prints reads it. */
int tutti_train_real_calib(const struct tutti_args *args, struct tutti_train_real *real,
                           struct tutti_err *err)
{
    const char *path = tutti_args_text(args, "calib");
    struct tutti_train_here here = {.count = 0};
    char *text = NULL;
    size_t bytes = 0;
    int status;

    real->calibrates = tutti_args_given(args, "calibrate") &&
                       (real->with.group == NULL || real->with.group->index == 0);
    if (!tutti_args_given(args, "calib") ||
        (real->with.group != NULL && real->with.group->index > 0))
        return 0;
    status = tutti_file_read(path, &text, &bytes, err);
    if (status == 0)
        status = tutti_train_here_parse(path, text, real->run.backend->name, &here, err);
    if (status == 0)
        status = tutti_train_here_predict(&here, real, &real->predicted, err);
    free(text);
    tutti_train_here_done(&here);
    return status;
}

int tutti_train_real_note_pieces(struct tutti_train_real *real, const struct tutti_trained *step,
                                 struct tutti_err *err)
{
    struct tutti_train_pieces pieces = {.count = 0};
    int status;

    if (!real->calibrates)
        return 0;
    status =
        tutti_train_pieces_make(tutti_trainer_schedule(real->trainer), &real->record, &pieces, err);
    if (status == 0)
        status = tutti_train_here_add(&real->notes, real, &pieces, step->step_ps, err);
    tutti_train_pieces_done(&pieces);
    return status;
}
