/* The orders in which devices of a pipeline work. Each is a few runs of tasks: some forward passes
 * until the first gradient comes, then forward and backward in turn, then the gradients left. */
#include "runtime/pipeline.h"

#include <assert.h>
#include <inttypes.h>
#include <strings.h>

#include "runtime/status.h"
#include "runtime/wide.h"

static const char *const names[TUTTI_PIPELINE_COUNT] = {"gpipe", "1f1b",  "interleaved",
                                                        "zb-h1", "zb-h2", "zbv"};

const char *tutti_pipeline_name(enum tutti_pipeline pipeline)
{
    return names[pipeline];
}

int tutti_pipeline_find(const char *name, enum tutti_pipeline *ret, struct tutti_err *err)
{
    char hint[TUTTI_HINT_BYTES];
    static const char all[] = "gpipe|1f1b|interleaved|zb-h1|zb-h2|zbv";

    for (int i = 0; i < TUTTI_PIPELINE_COUNT; i++) {
        if (strcasecmp(name, names[i]) == 0) {
            *ret = (enum tutti_pipeline)i;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown pipeline '%.40s' (%s%s)", name,
                      tutti_nearest_hint(name, all, hint), all);
}

/* ---- shape ----------------------------------------------------------------------------------- */

uint32_t tutti_pipeline_chunks(const struct tutti_pipeline_params *params)
{
    if (params->pipeline == TUTTI_PIPELINE_ZBV)
        return 2;
    return params->chunks > 0 ? params->chunks : 1;
}

bool tutti_pipeline_splits(const struct tutti_pipeline_params *params)
{
    return params->pipeline >= TUTTI_PIPELINE_ZB_H1;
}

uint32_t tutti_pipeline_stage_count(const struct tutti_pipeline_params *params)
{
    return params->device_count * tutti_pipeline_chunks(params);
}

uint32_t tutti_pipeline_task_count(const struct tutti_pipeline_params *params)
{
    return params->micro_batches * tutti_pipeline_chunks(params) *
           (tutti_pipeline_splits(params) ? 3 : 2);
}

uint32_t tutti_pipeline_stage(const struct tutti_pipeline_params *params, uint32_t device,
                              uint32_t chunk)
{
    assert(device < params->device_count);
    assert(chunk < tutti_pipeline_chunks(params));
    if (params->pipeline == TUTTI_PIPELINE_ZBV && chunk == 1)
        return 2 * params->device_count - 1 - device;
    return chunk * params->device_count + device;
}

void tutti_pipeline_place(const struct tutti_pipeline_params *params, uint32_t stage,
                          uint32_t *ret_device, uint32_t *ret_chunk)
{
    const uint32_t p = params->device_count;

    assert(stage < tutti_pipeline_stage_count(params));
    *ret_chunk = stage / p;
    *ret_device =
        params->pipeline == TUTTI_PIPELINE_ZBV && stage >= p ? 2 * p - 1 - stage : stage % p;
}

static int refuse_few(const struct tutti_pipeline_params *p, uint64_t least, struct tutti_err *err)
{
    if (p->micro_batches >= least)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "pipeline '%s' of %" PRIu32 " devices with '%" PRIu32
                      "' micro-batches (%" PRIu64 " or more; 1f1b)",
                      names[p->pipeline], p->device_count, p->micro_batches, least);
}

int tutti_pipeline_check(const struct tutti_pipeline_params *params, struct tutti_err *err)
{
    struct tutti_pipeline_params p;
    int status = tutti_take("tutti_pipeline_params", &p, sizeof(p), params,
                            TUTTI_BYTES_TO(struct tutti_pipeline_params, chunks), err);
    const uint64_t devices = status < 0 ? 0 : p.device_count;

    if (status < 0)
        return status;
    if ((unsigned)p.pipeline >= TUTTI_PIPELINE_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "a pipeline of an unknown kind");
    if (devices == 0 || p.micro_batches == 0)
        return tutti_fail(err, TUTTI_EINVAL, "a pipeline of no devices, or of no micro-batches");
    if (p.pipeline == TUTTI_PIPELINE_INTERLEAVED ? p.chunks < 2
        : p.pipeline == TUTTI_PIPELINE_ZBV       ? p.chunks != 0 && p.chunks != 2
                                                 : p.chunks > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "pipeline '%s' with '%" PRIu32 "' chunks a device (interleaved: 2 or "
                          "more, zbv: 2, others: 1)",
                          names[p.pipeline], p.chunks);
    if (tutti_times(devices * p.micro_batches, 3 * (uint64_t)(p.chunks > 2 ? p.chunks : 2)) >
        TUTTI_PIPELINE_TASKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a pipeline of '%" PRIu32 "' devices and '%" PRIu32
                          "' micro-batches (at most %d tasks in all)",
                          p.device_count, p.micro_batches, TUTTI_PIPELINE_TASKS_MAX);
    if (p.pipeline == TUTTI_PIPELINE_INTERLEAVED && p.micro_batches % p.device_count != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "pipeline 'interleaved' of %" PRIu32 " devices with '%" PRIu32
                          "' micro-batches (a multiple of the devices)",
                          p.device_count, p.micro_batches);
    return refuse_few(&p,
                      p.pipeline == TUTTI_PIPELINE_ZB_H1   ? devices
                      : p.pipeline == TUTTI_PIPELINE_ZB_H2 ? 2 * devices - 1
                      : p.pipeline == TUTTI_PIPELINE_ZBV   ? 2 * devices - 2
                                                           : 1,
                      err);
}

int tutti_pipeline_cut(uint32_t layer_count, uint64_t layer_size, uint64_t head_size,
                       uint32_t stage_count, uint32_t *ret, struct tutti_err *err)
{
    const uint64_t all = tutti_plus(tutti_times(layer_count, layer_size), head_size);
    uint32_t used = 0;

    if (stage_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "a model cut into no stages");
    if (tutti_times(all, stage_count) == UINT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a model of more parameters than can be counted, cut into %" PRIu32
                          " stages",
                          stage_count);
    for (uint32_t i = 0; i < stage_count; i++) {
        const uint32_t first = used;

        while (used < layer_count &&
               (i + 1 == stage_count || used * layer_size * stage_count < all * ((uint64_t)i + 1)))
            used++;
        ret[i] = used - first;
    }
    return 0;
}

/* ---- orders ---------------------------------------------------------------------------------- */

enum { CHUNKS_OF_WRITER = 2 };

/* Writes tasks; of each pass and chunk it knows which micro-batch is next. */
struct writer {
    struct tutti_pipeline_task *at;
    uint32_t micro_batches;
    uint32_t next[3][CHUNKS_OF_WRITER];
};

static void put(struct writer *w, enum tutti_pass pass, uint32_t chunk, uint32_t micro_batch)
{
    *w->at++ = (struct tutti_pipeline_task){pass, chunk, micro_batch};
}

/* The next micro-batch, if there is one. */
static void add(struct writer *w, enum tutti_pass pass, uint32_t chunk)
{
    if (w->next[pass][chunk] < w->micro_batches)
        put(w, pass, chunk, w->next[pass][chunk]++);
}

static void add_many(struct writer *w, enum tutti_pass pass, uint32_t chunk, uint32_t count)
{
    for (uint32_t i = 0; i < count && w->next[pass][chunk] < w->micro_batches; i++)
        add(w, pass, chunk);
}

static void write_gpipe(struct writer *w)
{
    add_many(w, TUTTI_PASS_FORWARD, 0, w->micro_batches);
    for (uint32_t i = w->micro_batches; i-- > 0;) /* the newest first, whose input is at hand */
        put(w, TUTTI_PASS_BACKWARD, 0, i);
}

/* So many forward passes first; gradients of weights come `lag` micro-batches behind those of
 * inputs, so that in the end there are enough of them to fill the gaps. UINT32_MAX: with these. */
static void write_1f1b(struct writer *w, uint32_t ahead, uint32_t lag)
{
    add_many(w, TUTTI_PASS_FORWARD, 0, ahead);
    for (uint32_t i = 0; i < w->micro_batches; i++) {
        add(w, TUTTI_PASS_FORWARD, 0);
        add(w, TUTTI_PASS_BACKWARD, 0);
        if (lag != UINT32_MAX && i >= lag)
            add(w, TUTTI_PASS_WEIGHTS, 0);
    }
    if (lag != UINT32_MAX)
        add_many(w, TUTTI_PASS_WEIGHTS, 0, w->micro_batches);
}

/* Micro-batches go p at a time through chunk after chunk. */
static void put_interleaved(struct writer *w, const struct tutti_pipeline_params *params,
                            enum tutti_pass pass, uint32_t number)
{
    const uint32_t p = params->device_count;
    const uint32_t v = tutti_pipeline_chunks(params);
    const uint32_t chunk = number % (p * v) / p;

    put(w, pass, pass == TUTTI_PASS_FORWARD ? chunk : v - 1 - chunk,
        number / (p * v) * p + number % p);
}

static void write_interleaved(struct writer *w, const struct tutti_pipeline_params *params,
                              uint32_t device)
{
    const uint32_t p = params->device_count;
    const uint32_t v = tutti_pipeline_chunks(params);
    const uint32_t all = params->micro_batches * v;
    const uint32_t wanted = 2 * (p - 1 - device) + (v - 1) * p;
    const uint32_t ahead = wanted < all ? wanted : all;

    for (uint32_t i = 0; i < ahead; i++)
        put_interleaved(w, params, TUTTI_PASS_FORWARD, i);
    for (uint32_t i = ahead; i < all; i++) {
        put_interleaved(w, params, TUTTI_PASS_FORWARD, i);
        put_interleaved(w, params, TUTTI_PASS_BACKWARD, i - ahead);
    }
    for (uint32_t i = all - ahead; i < all; i++)
        put_interleaved(w, params, TUTTI_PASS_BACKWARD, i);
}

static void add_whole_backward(struct writer *w, uint32_t chunk)
{
    add(w, TUTTI_PASS_BACKWARD, chunk);
    add(w, TUTTI_PASS_WEIGHTS, chunk);
}

/* Chunk 1 comes back: device 0 has the first stage and the last. Until the first micro-batch is
 * back a device takes in as many as fit, then one of each pass and chunk in turn. */
static void write_zbv(struct writer *w, uint32_t p, uint32_t device)
{
    add_many(w, TUTTI_PASS_FORWARD, 0, 2 * (p - device) - 1);
    for (uint32_t i = 0; i < device; i++) {
        add(w, TUTTI_PASS_FORWARD, 1);
        add(w, TUTTI_PASS_FORWARD, 0);
    }
    for (uint32_t i = device; i < p; i++) {
        add(w, TUTTI_PASS_FORWARD, 1);
        add_whole_backward(w, 1);
    }
    while (w->next[TUTTI_PASS_FORWARD][0] < w->micro_batches ||
           w->next[TUTTI_PASS_FORWARD][1] < w->micro_batches) {
        add(w, TUTTI_PASS_FORWARD, 0);
        add_whole_backward(w, 0);
        add(w, TUTTI_PASS_FORWARD, 1);
        add_whole_backward(w, 1);
    }
    for (uint32_t i = 0; i < device; i++) {
        add(w, TUTTI_PASS_BACKWARD, 0);
        add(w, TUTTI_PASS_BACKWARD, 1);
    }
    for (uint32_t i = device; i < p; i++)
        add_whole_backward(w, 0);
    for (int chunk = 0; chunk < 2; chunk++)
        add_many(w, TUTTI_PASS_BACKWARD, (uint32_t)chunk, w->micro_batches);
    for (int chunk = 1; chunk >= 0; chunk--)
        add_many(w, TUTTI_PASS_WEIGHTS, (uint32_t)chunk, w->micro_batches);
}

void tutti_pipeline_tasks(const struct tutti_pipeline_params *params, uint32_t device,
                          struct tutti_pipeline_task *ret)
{
    const uint32_t behind = params->device_count - 1 - device; /* devices that come after it */
    struct writer w = {.at = ret, .micro_batches = params->micro_batches};

    assert(device < params->device_count);
    switch (params->pipeline) {
    case TUTTI_PIPELINE_GPIPE:
        write_gpipe(&w);
        break;
    case TUTTI_PIPELINE_INTERLEAVED:
        write_interleaved(&w, params, device);
        break;
    case TUTTI_PIPELINE_ZB_H1:
        write_1f1b(&w, behind, device);
        break;
    case TUTTI_PIPELINE_ZB_H2:
        write_1f1b(&w, 2 * behind, 2 * device);
        break;
    case TUTTI_PIPELINE_ZBV:
        write_zbv(&w, params->device_count, device);
        break;
    default:
        write_1f1b(&w, behind, UINT32_MAX);
        break;
    }
    assert(w.at == ret + tutti_pipeline_task_count(params));
}
