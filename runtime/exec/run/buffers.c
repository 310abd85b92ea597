/* The buffers of the ranks of a process, by handle: the one place that knows how long they are and
 * who provides them. */
#include <stdlib.h>

#include "runtime/exec/run/run.h"

static const enum tutti_buf kinds[] = {TUTTI_BUF_SCRATCH, TUTTI_BUF_IN, TUTTI_BUF_OUT,
                                       TUTTI_BUF_STATE};

static uint64_t bytes_of(const struct tutti_player_run *run, uint32_t own, enum tutti_buf buf)
{
    struct tutti_buf_sizes sizes;

    tutti_schedule_buf_sizes(run->load.schedule, run->load.first_rank + own, &sizes);
    return tutti_buf_size_of(&sizes, buf);
}

/* What the caller has of a rank's buffer; NULL: nothing. */
static void *given(const struct tutti_player_run *run, uint32_t own, enum tutti_buf buf)
{
    const struct tutti_play *play = &run->play;
    uint32_t rank = run->load.first_rank + own;

    switch (buf) {
    case TUTTI_BUF_IN: /* it is only read: programs that write it are refused */
        return play->in == NULL ? NULL : (void *)(uintptr_t)play->in[rank];
    case TUTTI_BUF_OUT:
        return play->out == NULL ? NULL : play->out[rank];
    case TUTTI_BUF_STATE:
        return play->state == NULL ? NULL : play->state[rank];
    default:
        return NULL;
    }
}

static int provide(struct tutti_player_run *run, uint32_t own, enum tutti_buf buf,
                   struct tutti_err *err)
{
    const struct tutti_device *device = run->backend->player->device;
    void *memory = given(run, own, buf);
    uint64_t bytes = bytes_of(run, own, buf);
    tutti_handle *handle = &run->buffers.handles[own][buf];
    int status;

    run->borrowed[own][buf] = memory != NULL && device->ops->borrow != NULL;
    if (run->borrowed[own][buf]) {
        *handle = device->ops->borrow(device, memory);
        return 0;
    }
    run->copies = run->copies || memory != NULL;
    status = device->ops->alloc(device, bytes, handle, err);
    /* Scratch has no value at the beginning: who reads it first writes it. */
    return status < 0 || buf == TUTTI_BUF_SCRATCH
               ? status
               : device->ops->fill(device, *handle, 0, bytes, err);
}

int tutti_run_buffers_open(struct tutti_player_run *run, struct tutti_err *err)
{
    uint32_t count = run->load.own_count;
    int status = 0;

    run->buffers.first_rank = run->load.first_rank;
    run->buffers.handles = calloc((size_t)count + 1, sizeof(run->buffers.handles[0]));
    run->borrowed = calloc((size_t)count + 1, sizeof(run->borrowed[0]));
    if (run->buffers.handles == NULL || run->borrowed == NULL)
        return tutti_nomem(err);
    run->buffers.rank_count = count;
    for (uint32_t i = 0; i < count && status == 0; i++) {
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && status == 0; k++)
            status = provide(run, i, kinds[k], err);
        /* Of steps of 0 bytes. */
        run->buffers.handles[i][TUTTI_BUF_NONE] = run->buffers.handles[i][TUTTI_BUF_SCRATCH];
        run->borrowed[i][TUTTI_BUF_NONE] = true;
    }
    return status;
}

void tutti_run_buffers_close(struct tutti_player_run *run)
{
    const struct tutti_device *device = run->backend->player->device;

    for (uint32_t i = 0; i < run->buffers.rank_count; i++) {
        for (uint32_t buf = 0; buf < TUTTI_BUF_COUNT; buf++) {
            if (run->buffers.handles[i][buf] != 0 && !run->borrowed[i][buf])
                device->ops->free(device, run->buffers.handles[i][buf]);
        }
    }
    free(run->buffers.handles);
    free(run->borrowed);
}

int tutti_run_buffers_write(struct tutti_player_run *run, struct tutti_err *err)
{
    const struct tutti_device *device = run->backend->player->device;
    int status = 0;

    for (uint32_t i = 0; run->copies && i < run->load.own_count; i++) {
        /* The output, too: a schedule need not write all of it. */
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && status == 0; k++) {
            const void *memory = given(run, i, kinds[k]);

            if (memory != NULL && !run->borrowed[i][kinds[k]])
                status = device->ops->write(device, run->buffers.handles[i][kinds[k]], memory,
                                            bytes_of(run, i, kinds[k]), err);
        }
    }
    return status;
}

int tutti_run_buffers_read(struct tutti_player_run *run, struct tutti_err *err)
{
    const struct tutti_device *device = run->backend->player->device;
    int status = 0;

    for (uint32_t i = 0; run->copies && i < run->load.own_count; i++) {
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && status == 0; k++) {
            void *memory = given(run, i, kinds[k]);

            if (memory != NULL && kinds[k] != TUTTI_BUF_IN && !run->borrowed[i][kinds[k]])
                status = device->ops->read(device, memory, run->buffers.handles[i][kinds[k]],
                                           bytes_of(run, i, kinds[k]), err);
        }
    }
    return status;
}
