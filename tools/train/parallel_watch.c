/* The tasks of a step's pipeline, as they are told, and as a trace; see parallel.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tools/cli/trace_file.h"
#include "tools/train/parallel.h"
#include "traces/chrome.h"

enum { NAME_BYTES = 48 };

void tutti_train_parallel_note(void *context, const struct tutti_parallel_note *note)
{
    struct tutti_train_parallel_watch *w = context;

    if (w->count == w->room) {
        const size_t room = w->room > 0 ? 2 * w->room : 256;
        struct tutti_parallel_note *tasks = realloc(w->tasks, room * sizeof(*tasks));

        w->lost = w->lost || tasks == NULL;
        if (tasks == NULL)
            return;
        w->tasks = tasks;
        w->room = room;
    }
    w->tasks[w->count++] = *note;
    w->end_ps = note->end_ps > w->end_ps ? note->end_ps : w->end_ps;
}

void tutti_train_parallel_watch_done(struct tutti_train_parallel_watch *w)
{
    free(w->tasks);
    *w = (struct tutti_train_parallel_watch){.count = 0};
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool has_micro_batch(const struct tutti_parallel_note *task)
{
    return task->task == TUTTI_TASK_FORWARD || task->task == TUTTI_TASK_BACKWARD ||
           task->task == TUTTI_TASK_WEIGHTS;
}

/* "forward 3", "backward 0 of chunk 1", "optimizer" */
static void name_task(const struct tutti_train_parallel_watch *w,
                      const struct tutti_parallel_note *task, char name[NAME_BYTES])
{
    if (!has_micro_batch(task))
        (void)snprintf(name, NAME_BYTES, "%s", tutti_parallel_task_name(task->task));
    else if (w->cut.virtual_stages < 2)
        (void)snprintf(name, NAME_BYTES, "%s %u", tutti_parallel_task_name(task->task),
                       task->micro_batch);
    else
        (void)snprintf(name, NAME_BYTES, "%s %u of chunk %u", tutti_parallel_task_name(task->task),
                       task->micro_batch, task->chunk);
}

/* ---- the trace ------------------------------------------------------------------------------- */

struct naming {
    const struct tutti_train_parallel_watch *watch;
    char name[NAME_BYTES];
    char lane[NAME_BYTES];
};

/* Of the events of gaps `step` is the number of the task behind them. */
static const char *name_step(const void *context, const struct tutti_event *event)
{
    /* the buffer is the caller's own, which it does not share */
    struct naming *n = (struct naming *)(uintptr_t)context;
    char task[NAME_BYTES];

    name_task(n->watch, &n->watch->tasks[event->step], task);
    if (event->kind == TUTTI_COPY)
        (void)snprintf(n->name, NAME_BYTES, "waits to do %.*s", NAME_BYTES - 16, task);
    else
        (void)snprintf(n->name, NAME_BYTES, "%s", task);
    return n->name;
}

static const char *name_lane(const void *context, uint16_t lane)
{
    struct naming *n = (struct naming *)(uintptr_t)context; /* likewise */

    (void)snprintf(n->lane, NAME_BYTES, "stage %u", (unsigned)lane);
    return n->lane;
}

/* The lane of a rank is its stage. */
static int add(struct tutti_record *record, uint32_t rank, uint32_t device, uint8_t kind,
               size_t step, tutti_ps begin_ps, tutti_ps end_ps)
{
    const struct tutti_event event = {.start_ps = begin_ps,
                                      .end_ps = end_ps,
                                      .rank = rank,
                                      .lane = (uint16_t)(device % (UINT16_MAX + 1u)),
                                      .kind = kind,
                                      .step = step};

    return tutti_record_add(record, &event);
}

/* Devices of the first pipeline by their ranks, one after another; what lies between tasks, too. */
static int add_all(const struct tutti_train_parallel_watch *w, struct tutti_record *record)
{
    const struct tutti_axis axis = tutti_parallel_axis(&w->cut, TUTTI_GROUP_PIPELINE);
    tutti_ps free_ps = 0;
    int status = 0;

    for (size_t i = 0; i < w->count && status == 0; i++) {
        const struct tutti_parallel_note *task = &w->tasks[i];
        const uint32_t rank = tutti_axis_rank(&axis, 0, task->device);

        if (i == 0 || task->device != task[-1].device)
            free_ps = 0;
        if (task->begin_ps > free_ps)
            status = add(record, rank, task->device, TUTTI_COPY, i, free_ps, task->begin_ps);
        if (status == 0)
            status =
                add(record, rank, task->device, TUTTI_COMPUTE, i, task->begin_ps, task->end_ps);
        free_ps = task->end_ps > free_ps ? task->end_ps : free_ps;
    }
    return status;
}

int tutti_train_parallel_trace(const struct tutti_train_parallel_watch *w, const char *path,
                               const char *title, struct tutti_sink *sink, struct tutti_err *err)
{
    struct naming naming = {.watch = w};
    const struct tutti_chrome_names names = {
        .lane = name_lane, .step = name_step, .context = &naming};
    struct tutti_record record;
    int status;

    tutti_record_init(&record);
    status = add_all(w, &record);
    tutti_record_sort(&record);
    status =
        status < 0 ? tutti_nomem(err) : tutti_trace_write(path, &record, title, &names, sink, err);
    tutti_record_done(&record);
    return status;
}
