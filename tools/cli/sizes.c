/* The sweep of sizes that -b -e -f -i ask for; see sizes.h. */
#include "tools/cli/sizes.h"

#include <assert.h>

#include "runtime/status.h"

/* The size after `bytes`, or UINT64_MAX if there is none that can be said. */
static uint64_t next_size(const struct tutti_sizes *sizes, uint64_t bytes)
{
    uint64_t next = 0;

    if (sizes->factor > 1)
        return __builtin_mul_overflow(bytes, sizes->factor, &next) ? UINT64_MAX : next;
    return __builtin_add_overflow(bytes, sizes->step_bytes, &next) ? UINT64_MAX : next;
}

int tutti_sizes_check_order(const struct tutti_args *args, uint64_t least, uint64_t most,
                            struct tutti_err *err)
{
    if (least <= most)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "option '-b': '%s' is above '-e' '%s' (at most that)",
                      tutti_args_text(args, "minbytes"), tutti_args_text(args, "maxbytes"));
}

static int check(const struct tutti_args *args, const struct tutti_sizes *sizes,
                 struct tutti_err *err)
{
    int status = tutti_sizes_check_order(args, sizes->min_bytes, sizes->max_bytes, err);

    if (tutti_args_given(args, "stepfactor") && tutti_args_given(args, "stepbytes"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '-f' and '-i' contradict each other (one of them)");
    if (status < 0)
        return status;
    if (sizes->factor == 1 && sizes->step_bytes == 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '-i': a step of '%s' (1 or more)",
                          tutti_args_text(args, "stepbytes"));
    if (sizes->factor > 1 && sizes->min_bytes == 0 && sizes->max_bytes > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-b': 0 times a factor stays 0 (1 or more, or steps by -i)");
    return 0;
}

int tutti_sizes_read(const struct tutti_args *args, struct tutti_sizes *ret, struct tutti_err *err)
{
    bool by_steps = tutti_args_given(args, "stepbytes");
    bool from = tutti_args_given(args, "minbytes");
    bool to = tutti_args_given(args, "maxbytes");
    struct tutti_sizes sizes = {
        .min_bytes = tutti_args_number(args, "minbytes"),
        .max_bytes = tutti_args_number(args, "maxbytes"),
        .factor = by_steps ? 1 : tutti_args_number(args, "stepfactor"),
        .step_bytes = by_steps ? tutti_args_number(args, "stepbytes") : 0,
    };
    int status;

    if (from && !to)
        sizes.max_bytes = sizes.min_bytes;
    if (to && !from && sizes.min_bytes > sizes.max_bytes)
        sizes.min_bytes = sizes.max_bytes;
    status = check(args, &sizes, err);
    if (status < 0)
        return status;
    sizes.count = 1;
    for (uint64_t bytes = next_size(&sizes, sizes.min_bytes);
         bytes <= sizes.max_bytes && bytes > sizes.min_bytes && bytes != UINT64_MAX;
         bytes = next_size(&sizes, bytes)) {
        if (++sizes.count > TUTTI_SIZES_MAX)
            return tutti_fail(err, TUTTI_EINVAL,
                              "more than %d sizes from '-b' to '-e' (wider steps)",
                              TUTTI_SIZES_MAX);
    }
    *ret = sizes;
    return 0;
}

uint64_t tutti_sizes_at(const struct tutti_sizes *sizes, uint32_t index)
{
    uint64_t bytes = sizes->min_bytes;

    assert(index < sizes->count);
    for (uint32_t i = 0; i < index; i++)
        bytes = next_size(sizes, bytes);
    return bytes;
}

uint64_t tutti_sizes_elements(enum tutti_collective collective, uint64_t bytes,
                              enum tutti_dtype dtype, uint32_t rank_count)
{
    uint64_t count = tutti_collective_count_for(collective, bytes, dtype, rank_count);
    uint64_t grain = 16 / tutti_dtype_bytes(dtype); /* nccl-tests: blocks begin at 16 bytes */

    if (collective == TUTTI_ALLGATHER || collective == TUTTI_REDUCESCATTER ||
        collective == TUTTI_ALLTOALL)
        count -= count % grain;
    return count;
}
