/* The serial player: the reference player behind the table of players (runtime/exec/run/player.h).
 * All ranks take turns in the calling thread, an iteration a poll; time is its own: a step takes a
 * nanosecond, COMPUTE its duration. Its buffers lie in a device whose handles are no addresses, so
 * that nobody but the player can have touched them. */
#ifndef TUTTI_TESTS_RUNTIME_SERIAL_PLAYER_H
#define TUTTI_TESTS_RUNTIME_SERIAL_PLAYER_H

#include <stdatomic.h>
#include <time.h>

#include "runtime/exec/run/player.h"
#include "runtime/record.h"
#include "tests/runtime/reference_player.h"

/* ---- the device ---- */

enum { SERIAL_BUFFERS_MAX = 4096 };

struct serial_device {
    struct tutti_device base;
    char *memory[SERIAL_BUFFERS_MAX]; /* a handle is an index here, and one more */
    uint64_t bytes[SERIAL_BUFFERS_MAX];
    uint32_t used_count;
    uint32_t copy_count;  /* writes and reads so far */
    uint32_t copies_left; /* the copy after those fails; UINT32_MAX: none does */
};

static struct serial_device *serial_device_of(const struct tutti_device *device)
{
    return (struct serial_device *)(uintptr_t)device;
}

static int serial_alloc(const struct tutti_device *base, uint64_t bytes, tutti_handle *ret,
                        struct tutti_err *err)
{
    struct serial_device *device = serial_device_of(base);
    uint32_t at = 0;

    while (at < SERIAL_BUFFERS_MAX && device->memory[at] != NULL)
        at++;
    if (at == SERIAL_BUFFERS_MAX)
        return tutti_nomem(err);
    device->memory[at] = malloc((size_t)bytes + 1);
    if (device->memory[at] == NULL)
        return tutti_nomem(err);
    memset(device->memory[at], 0xee, (size_t)bytes + 1);
    device->bytes[at] = bytes;
    device->used_count++;
    *ret = at + 1;
    return 0;
}

static void serial_free(const struct tutti_device *base, tutti_handle memory)
{
    struct serial_device *device = serial_device_of(base);

    free(device->memory[memory - 1]);
    device->memory[memory - 1] = NULL;
    device->used_count--;
}

/* Whether a copy of so many bytes may be made. */
static int serial_copies(struct serial_device *device, tutti_handle memory, uint64_t bytes,
                         struct tutti_err *err)
{
    device->copy_count++;
    if (bytes > device->bytes[memory - 1])
        return tutti_fail(err, TUTTI_EINVAL, "%llu bytes of a buffer of %llu",
                          (unsigned long long)bytes, (unsigned long long)device->bytes[memory - 1]);
    if (device->copies_left == 0)
        return tutti_fail(err, TUTTI_EIO, "the device is gone");
    device->copies_left -= device->copies_left != UINT32_MAX;
    return 0;
}

static int serial_fill(const struct tutti_device *base, tutti_handle memory, unsigned char value,
                       uint64_t bytes, struct tutti_err *err)
{
    struct serial_device *device = serial_device_of(base);
    int status = serial_copies(device, memory, bytes, err);

    if (status == 0)
        memset(device->memory[memory - 1], value, (size_t)bytes);
    return status;
}

static int serial_write(const struct tutti_device *base, tutti_handle to, const void *from,
                        uint64_t bytes, struct tutti_err *err)
{
    struct serial_device *device = serial_device_of(base);
    int status = serial_copies(device, to, bytes, err);

    if (status == 0 && bytes > 0)
        memcpy(device->memory[to - 1], from, (size_t)bytes);
    return status;
}

static int serial_read(const struct tutti_device *base, void *to, tutti_handle from, uint64_t bytes,
                       struct tutti_err *err)
{
    struct serial_device *device = serial_device_of(base);
    int status = serial_copies(device, from, bytes, err);

    if (status == 0 && bytes > 0)
        memcpy(to, device->memory[from - 1], (size_t)bytes);
    return status;
}

static const struct tutti_device_ops serial_device_ops = {
    .size = sizeof(struct tutti_device_ops),
    .name = "serial",
    .alloc = serial_alloc,
    .free = serial_free,
    .fill = serial_fill,
    .write = serial_write,
    .read = serial_read,
};

/* ---- the player ---- */

struct serial_player {
    struct tutti_player base;
    struct serial_device device;
    uint32_t open_count; /* loaded and not unloaded */
};

struct serial_run {
    struct ref ref; /* first member: the stage casts back */
    struct serial_player *player;
    struct tutti_load load;
    char **bufs; /* [enum tutti_buf][rank], backs ref.bufs */
    struct tutti_engine *engine;
    struct tutti_record record;
    struct tutti_burst burst;
    uint64_t played_count; /* iterations of the burst */
    tutti_ps now_ps;       /* in the iteration */
    tutti_ps *took_ps;     /* [iteration_count] */
    atomic_int aborted;    /* 1: status and err hold */
    int status;
    struct tutti_err err;
};

/* The message that a waiting RECV would take; NULL: none has set out. */
static const struct ref_message *serial_message(const struct ref *ref,
                                                const struct tutti_post *recv)
{
    for (uint32_t k = 0; k < ref->send_count; k++) {
        const struct ref_message *m = &ref->sends[k];

        if (m->started && m->from == recv->step->peer && m->to == recv->rank &&
            m->lane == recv->lane)
            return m;
    }
    return NULL;
}

static int serial_check(const struct ref *ref, struct tutti_err *err)
{
    char text[TUTTI_STEP_TEXT_BYTES];

    for (uint32_t i = 0; i < ref->waiting_count; i++) {
        const struct tutti_post *post = &ref->waiting[i];
        const struct ref_message *m =
            post->step->kind == TUTTI_RECV ? serial_message(ref, post) : NULL;

        if (m != NULL && m->post.step->bytes != post->step->bytes)
            return tutti_fail(
                err, TUTTI_ECHECK, "rank %u, lane %u, step %llu (%s): %llu bytes came", post->rank,
                post->lane, (unsigned long long)post->index, tutti_step_text(post->step, text),
                (unsigned long long)m->post.step->bytes);
    }
    return 0;
}

/* How long what is done takes. */
static tutti_ps serial_time(const struct ref *ref)
{
    for (uint32_t i = 0; i < ref->waiting_count; i++) {
        if (ref->waiting[i].step->kind == TUTTI_COMPUTE)
            return ref->waiting[i].step->duration_ps + TUTTI_PS_PER_NS;
    }
    return TUTTI_PS_PER_NS;
}

static int serial_poll_stage(void *data, struct tutti_done *done, uint32_t max,
                             struct tutti_err *err)
{
    struct serial_run *run = data;
    tutti_ps takes_ps = serial_time(&run->ref);
    int status = serial_check(&run->ref, err);
    int count = status < 0 ? status : ref_poll(&run->ref, done, max, err);

    for (int i = 0; i < count; i++) {
        done[i].start_ps = run->now_ps;
        done[i].end_ps = run->now_ps + takes_ps;
    }
    run->now_ps += count > 0 ? takes_ps : 0;
    return count;
}

static void serial_unload(void *loaded)
{
    struct serial_run *run = loaded;

    if (run == NULL)
        return;
    run->player->open_count--;
    tutti_engine_free(run->engine);
    tutti_record_done(&run->record);
    free(run->bufs);
    free(run->took_ps);
    free(run);
}

static int serial_load(struct tutti_player *base, const struct tutti_load *load, void **ret,
                       struct tutti_err *err)
{
    struct serial_player *player = (struct serial_player *)base;
    struct serial_run *run = calloc(1, sizeof(*run));
    int status;

    if (run == NULL)
        return tutti_nomem(err);
    player->open_count++;
    run->player = player;
    run->load = *load;
    run->ref.schedule = load->schedule;
    tutti_record_init(&run->record);
    run->bufs = calloc((size_t)load->own_count * TUTTI_BUF_COUNT + 1, sizeof(run->bufs[0]));
    status = run->bufs == NULL ? tutti_nomem(err)
                               : tutti_engine_new(load->schedule, load->first_rank, load->own_count,
                                                  &run->engine, err);
    if (status < 0) {
        serial_unload(run);
        return status;
    }
    for (uint32_t b = 0; b < TUTTI_BUF_COUNT; b++) {
        run->ref.bufs[b] = run->bufs + (size_t)b * load->own_count;
        for (uint32_t r = 0; r < load->own_count; r++)
            run->ref.bufs[b][r] = player->device.memory[load->buffers->handles[r][b] - 1];
    }
    *ret = run;
    return 0;
}

static int serial_start(void *loaded, const struct tutti_burst *burst, struct tutti_err *err)
{
    struct serial_run *run = loaded;
    tutti_ps *took_ps = realloc(run->took_ps, burst->iteration_count * sizeof(took_ps[0]));

    if (took_ps == NULL)
        return tutti_nomem(err);
    run->took_ps = took_ps;
    run->burst = *burst;
    run->played_count = 0;
    return 0;
}

/* One iteration. */
static int serial_poll(void *loaded, struct tutti_err *err)
{
    static const struct tutti_stage_ops ops = {
        .size = sizeof(struct tutti_stage_ops), .post = ref_post, .poll = serial_poll_stage};
    struct serial_run *run = loaded;
    uint64_t total = (uint64_t)run->burst.warmup_count + run->burst.iteration_count;
    bool last = run->played_count + 1 == total;
    int status;

    if (atomic_load(&run->aborted) != 0) {
        *err = run->err;
        return run->status;
    }
    tutti_record_clear(&run->record);
    run->now_ps = 0;
    status = tutti_engine_run(run->engine, &ops, run,
                              run->burst.recorded && last ? &run->record : NULL, err);
    if (status < 0)
        return status;
    if (run->played_count >= run->burst.warmup_count)
        run->took_ps[run->played_count - run->burst.warmup_count] = run->now_ps;
    run->played_count++;
    return last;
}

static void serial_abort(void *loaded, int status, const struct tutti_err *err)
{
    struct serial_run *run = loaded;

    if (atomic_load(&run->aborted) != 0)
        return;
    run->status = status;
    run->err = *err;
    atomic_store(&run->aborted, 1);
}

static int serial_times(void *loaded, struct tutti_times *times, struct tutti_record *record,
                        struct tutti_err *err)
{
    struct serial_run *run = loaded;
    int status = 0;

    if (!run->load.meets)
        times->took_ps[0] = 0;
    for (uint32_t i = 0; i < run->burst.iteration_count; i++) {
        if (run->load.meets)
            times->took_ps[i] = run->took_ps[i];
        else
            times->took_ps[0] += run->took_ps[i];
    }
    times->step_count = tutti_engine_step_count(run->engine);
    for (size_t i = 0; record != NULL && i < run->record.event_count && status == 0; i++)
        status = tutti_record_add(record, &run->record.events[i]) < 0 ? tutti_nomem(err) : 0;
    return status;
}

static void serial_close(struct tutti_player *base)
{
    struct serial_player *player = (struct serial_player *)base;

    CHECK_INT(player->device.used_count, 0);
    CHECK_INT(player->open_count, 0);
    free(player);
}

static const struct tutti_player_ops serial_player_ops = {
    .size = sizeof(struct tutti_player_ops),
    .name = "serial",
    .close = serial_close,
    .load = serial_load,
    .start = serial_start,
    .poll = serial_poll,
    .abort = serial_abort,
    .times = serial_times,
    .unload = serial_unload,
};

static int serial_open(struct tutti_backend **ret, struct tutti_err *err)
{
    struct serial_player *player = calloc(1, sizeof(*player));

    if (player == NULL)
        return tutti_nomem(err);
    player->device.base.ops = &serial_device_ops;
    player->device.copies_left = UINT32_MAX;
    player->base = (struct tutti_player){.ops = &serial_player_ops, .device = &player->device.base};
    return tutti_player_backend_open("serial", &player->base, NULL, ret, err);
}

static inline struct serial_device *serial_device(const struct tutti_backend *backend)
{
    return &((struct serial_player *)tutti_backend_player(backend))->device;
}

#endif
