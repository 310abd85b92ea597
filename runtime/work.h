/* What a training step has beside messages: groups of ranks along the axes of a mesh, and the work
 * that its COMPUTE steps do. Part of runtime/schedule.h. */
#ifndef TUTTI_RUNTIME_WORK_H
#define TUTTI_RUNTIME_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_device_queue;
struct tutti_step;

/* ---- groups -------------------------------------------------------------------------------- */

/* An axis cuts all or some ranks into groups of one size, by rule: group a + b * width has the
 * ranks first + a + b * period + i * stride, for a < width, b < repeat; i < size is the rank's
 * number in its group. Of a mesh of 4 x 2 ranks, the inner axis is {width 1, stride 1, size 2,
 * period 2, repeat 4}, the outer one {width 2, stride 2, size 4, period 8, repeat 1}. A rank is in
 * one group of an axis, or in none. */
struct tutti_axis {
    const char *name; /* one word; of messages and the text form */
    uint32_t first;
    uint32_t width;  /* 1 to stride */
    uint32_t stride; /* >= 1 */
    uint32_t size;   /* >= 1 */
    uint32_t period; /* at least stride * (size - 1) + width */
    uint32_t repeat; /* >= 1 */
};

enum { TUTTI_AXES_MAX = 255 };

uint32_t tutti_axis_group_count(const struct tutti_axis *axis);
/* The group of a rank and its number there; false: it is in none. */
bool tutti_axis_find(const struct tutti_axis *axis, uint32_t rank, uint32_t *ret_group,
                     uint32_t *ret_member);
uint32_t tutti_axis_rank(const struct tutti_axis *axis, uint32_t group, uint32_t member);
/* Axis `index` of a mesh of sizes[0] x ... x sizes[count - 1] ranks from `first` on, the last of
 * them the innermost: neighbours in it are neighbours by number. */
struct tutti_axis tutti_mesh_axis(const char *name, uint32_t first, const uint32_t *sizes,
                                  uint32_t count, uint32_t index);

/* ---- work ---------------------------------------------------------------------------------- */

/* What kind of operation a COMPUTE is: devices reach different shares of their rates. */
enum tutti_work_kind {
    TUTTI_WORK_OTHER,
    TUTTI_WORK_MATMUL,
    TUTTI_WORK_CONVOLUTION,
    TUTTI_WORK_ATTENTION,
    TUTTI_WORK_NORMALIZATION,
    TUTTI_WORK_ELEMENTWISE,
    TUTTI_WORK_EMBEDDING,
    TUTTI_WORK_LOSS,
    TUTTI_WORK_OPTIMIZER,
    TUTTI_WORK_INPUT,
    TUTTI_WORK_HOST,
    TUTTI_WORK_KIND_COUNT
};

/* "other", "matmul", ...; find: -TUTTI_EINVAL with all of them. */
const char *tutti_work_kind_name(enum tutti_work_kind kind);
int tutti_work_kind_find(const char *name, enum tutti_work_kind *ret, struct tutti_err *err);

struct tutti_region {
    uint8_t buf; /* enum tutti_buf */
    /* Of what a COMPUTE reads: 0, or 1 + the number of an axis (as in a CALL): tutti_schedule_prove
     * holds that these bytes are the contributions of all members of the rank's group, reduced. An
     * optimiser asks this of its gradients. */
    uint8_t whole;
    uint64_t offset;
    uint64_t bytes;
};

/* A region of an entry of the work table, where COMPUTE `step` has it. */
struct tutti_region tutti_region_at(const struct tutti_region *region,
                                    const struct tutti_step *step);

/* One COMPUTE, as it is being played: what `run` gets. Buffers are those of the rank. */
struct tutti_work_call {
    const struct tutti_work *work;
    const struct tutti_step *step;
    uint32_t rank;
    uint64_t iteration; /* plays since the backend's run was opened, warm-up included */
    const void *in;
    void *out;
    void *scratch;
    void *state;
    /* NULL, or of work that is `queued`: buffers are a device's, and what touches them is put into
     * this queue, which the device works off in order. */
    struct tutti_device_queue *queue;
};

/* An entry of the work table. */
struct tutti_work {
    const char *name; /* one word: "block3.backward" */
    enum tutti_work_kind kind;
    uint64_t flops;
    uint64_t moved_bytes; /* read from and written to the device's memory */
    tutti_ps duration_ps; /* 0: what flops and moved_bytes take */
    const struct tutti_region *reads;
    uint32_t read_count;
    const struct tutti_region *writes;
    uint32_t write_count;
    /* NULL: takes its time and leaves all bytes alone; else really does it, in the place of that
     * time; never two at a time for one rank. Backends of the host do it in the thread of the rank
     * or, while that looks after messages, in a thread beside it; where a machine is emulated, in
     * as many threads as there are processors, and it takes the time that it takes there. A
     * negative status ends the play with it. */
    int (*run)(const struct tutti_work_call *call, struct tutti_err *err);
    void *context; /* for `run`; borrowed */
    /* `run` can put its work into the queue of a device, where a backend has one for it (a kind of
     * Tutti's own; else its regions are brought to the host before, and back after it). */
    bool queued;
};

TUTTI_API_END

#endif
