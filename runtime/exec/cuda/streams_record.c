/* When each step that streams have played began and ended, by the GPU's clock: an event before it,
 * once what it waits for is there, and one behind it. */
#include <stdlib.h>

#include "runtime/exec/cuda/streams_state.h"
#include "runtime/record.h"
#include "runtime/status.h"

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

/* Of a rank: the beginning of the step, and then two of each entry. */
static uint32_t count_of(const struct tutti_streams *s)
{
    return 1 + 2 * s->entry_count;
}

int tutti_streams_record_open(struct tutti_streams *s, struct tutti_err *err)
{
    const size_t count = count_of(s);
    int status = 0;

    for (uint32_t i = 0; i < s->opts.own_count && status == 0; i++) {
        struct tutti_streams_rank *r = &s->ranks[i];

        r->times = calloc(count, sizeof(r->times[0]));
        status = r->times == NULL ? tutti_nomem(err) : tutti_gpu_enter(r->gpu, err);
        for (size_t k = 0; k < count && status == 0; k++)
            status = CALL(r->gpu, event_create, &r->times[k], 0);
    }
    return status;
}

void tutti_streams_record_close(struct tutti_streams *s)
{
    for (uint32_t i = 0; s->ranks != NULL && i < s->opts.own_count; i++) {
        struct tutti_streams_rank *r = &s->ranks[i];

        if (r->times != NULL && !r->gpu->lost && tutti_gpu_enter(r->gpu, NULL) == 0)
            for (uint32_t k = 0; k < count_of(s); k++)
                if (r->times[k] != NULL)
                    (void)r->gpu->driver.event_destroy(r->times[k]);
        free(r->times);
    }
}

/* No lane begins before the time that all are counted from. */
int tutti_streams_record_begin(struct tutti_streams *s, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < s->opts.own_count && status == 0; i++) {
        struct tutti_streams_rank *r = &s->ranks[i];

        status = tutti_gpu_enter(r->gpu, err);
        if (status == 0)
            status = CALL(r->gpu, event_record, r->times[0], r->lanes[0].stream);
        for (uint32_t l = 1; l < s->play.schedule->lane_count && status == 0; l++)
            status = CALL(r->gpu, stream_wait, r->lanes[l].stream, r->times[0], 0);
    }
    return status;
}

int tutti_streams_record_mark(struct tutti_streams *s, const struct tutti_streams_entry *e,
                              uint32_t own, bool ends, struct tutti_err *err)
{
    struct tutti_streams_rank *r = &s->ranks[own];
    const size_t number = (size_t)(e - s->entries);

    return s->recording ? CALL(r->gpu, event_record, r->times[1 + 2 * number + ends],
                               r->lanes[e->lane].stream)
                        : 0;
}

/* From the beginning of the step on. */
static int read_times(const struct tutti_streams *s, uint32_t own, tutti_ps *ret,
                      struct tutti_err *err)
{
    const struct tutti_streams_rank *r = &s->ranks[own];
    int status = tutti_gpu_enter(r->gpu, err);

    for (uint32_t k = 1; k < count_of(s) && status == 0; k++) {
        float ms = 0;

        status = CALL(r->gpu, event_elapsed, &ms, r->times[0], r->times[k]);
        ret[k - 1] = ms > 0 ? (tutti_ps)((double)ms * 1e9) : 0;
    }
    return status;
}

static int add_rank(const struct tutti_streams *s, uint32_t own, const tutti_ps *at_ps,
                    struct tutti_record *record, tutti_ps *error_ps, struct tutti_err *err)
{
    tutti_ps last_ps = 0;
    tutti_ps later_ps = 0;
    tutti_ps off_ps = 0;

    for (uint32_t k = 0; k < 2 * s->entry_count; k++)
        last_ps = at_ps[k] > last_ps ? at_ps[k] : last_ps;
    tutti_gpu_place_times(last_ps, s->took_ps, &later_ps, &off_ps);
    *error_ps = off_ps > *error_ps ? off_ps : *error_ps;
    for (uint32_t i = 0; i < s->entry_count; i++) {
        const struct tutti_streams_entry *e = &s->entries[i];
        const struct tutti_event event = {.start_ps = later_ps + at_ps[2 * i],
                                          .end_ps = later_ps + at_ps[2 * i + 1],
                                          .rank = s->opts.first_rank + own,
                                          .lane = (uint16_t)e->lane,
                                          .kind = e->step.kind,
                                          .step = e->index,
                                          .bytes = e->step.kind == TUTTI_COPY ? e->step.bytes : 0};

        if (tutti_record_add(record, &event) != 0)
            return tutti_nomem(err);
    }
    return 0;
}

int tutti_streams_record(const struct tutti_streams *s, struct tutti_record *record,
                         tutti_ps *ret_error_ps, struct tutti_err *err)
{
    tutti_ps *at_ps = calloc(2 * (size_t)s->entry_count + 1, sizeof(at_ps[0]));
    tutti_ps error_ps = 0;
    int status = at_ps == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < s->opts.own_count && status == 0; i++) {
        status = read_times(s, i, at_ps, err);
        if (status == 0)
            status = add_rank(s, i, at_ps, record, &error_ps, err);
    }
    free(at_ps);
    if (status == 0)
        *ret_error_ps = error_ps;
    return status;
}
