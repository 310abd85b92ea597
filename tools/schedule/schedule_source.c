/* Takes a schedule from a file or from a generator, as the options say. */
#include "tools/schedule/schedule_source.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/cli/shared_options.h"
#include "tools/cli/sizes.h"

/* Rounds of all lanes: some 16 million steps take seconds and a gigabyte to check. */
enum { ROUNDS_MAX = 1 << 22 };

/* ---- from a file ----------------------------------------------------------------------------- */

/* Options that make a schedule have no say in one that is read. */
static int refuse_options(const struct tutti_args *args, const char *file, struct tutti_err *err)
{
    static const char *const names[] = {"collective", "algorithm", "ranks",  "bytes", "datatype",
                                        "op",         "root",      "levels", "dims",  "channels",
                                        "chunk",      "slices",    "slots"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (tutti_args_given(args, names[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "both a file '%s' and option '--%s', which is for a schedule that is "
                              "generated (one of them)",
                              file, names[i]);
    return 0;
}

/* Other people's formats are told from ours by how they begin. */
static int refuse_other_formats(const char *text, size_t bytes, struct tutti_err *err)
{
    size_t at = 0;

    while (at < bytes && isspace((unsigned char)text[at]))
        at++;
    if (at < bytes && text[at] == '<')
        return tutti_fail(err, TUTTI_ELACK,
                          "this looks like MSCCL XML, which this version cannot read (our own text "
                          "form, which begins 'schedule NAME')");
    if (bytes - at >= 9 && memcmp(text + at, "num_ranks", 9) == 0)
        return tutti_fail(err, TUTTI_ELACK,
                          "this looks like GOAL, which this version cannot read (our own text "
                          "form, which begins 'schedule NAME')");
    return 0;
}

int tutti_schedule_load_file(const char *file, struct tutti_schedule **ret, struct tutti_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    int status = tutti_file_read(file, &text, &bytes, err);

    if (status < 0)
        return status;
    status = refuse_other_formats(text, bytes, err);
    if (status < 0)
        status = tutti_wrap(err, status, "%s", file);
    else
        status = tutti_schedule_parse(file, text, bytes, ret, err);
    free(text);
    return status;
}

/* ---- from a generator ------------------------------------------------------------------------ */

/* "4x4x8" of option --`name`, if it is given; *product is multiplied by them. */
static int read_factors(const struct tutti_args *args, const char *name, uint32_t max,
                        uint32_t *factors, uint32_t *ret_count, struct tutti_err *err)
{
    const char *text = tutti_args_text(args, name);
    uint64_t product = 1;

    *ret_count = 0;
    for (const char *p = text; p != NULL; p = *p == 'x' ? p + 1 : NULL) {
        uint64_t value = 0;
        const char *digits = p;

        for (; isdigit((unsigned char)*p) && value <= UINT32_MAX; p++)
            value = value * 10 + (uint64_t)(*p - '0');
        product *= value;
        if (p == digits || product == 0 || product >= UINT32_MAX || (*p != 'x' && *p != '\0') ||
            *ret_count == max)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s': not such numbers '%s' (1 to %u of them, such as "
                              "4x4x8; fewer than 2^32 ranks)",
                              name, text, max);
        factors[(*ret_count)++] = (uint32_t)value;
    }
    return 0;
}

static uint32_t multiply(const uint32_t *factors, uint32_t count)
{
    uint32_t product = 1;

    for (uint32_t i = 0; i < count; i++)
        product *= factors[i];
    return product;
}

static int read_shape(const struct tutti_args *args, struct tutti_shape *shape,
                      struct tutti_err *err)
{
    uint32_t ranks = (uint32_t)tutti_args_number(args, "ranks");
    int status =
        read_factors(args, "levels", TUTTI_LEVELS_MAX, shape->level, &shape->level_count, err);

    if (status == 0)
        status = read_factors(args, "dims", TUTTI_DIMS_MAX, shape->dim, &shape->dim_count, err);
    if (status < 0)
        return status;
    for (uint32_t i = 0; i < shape->dim_count; i++)
        shape->wrap[i] = shape->dim[i] > 2;
    if (!tutti_args_given(args, "ranks"))
        ranks = shape->level_count > 0 ? multiply(shape->level, shape->level_count)
                                       : multiply(shape->dim, shape->dim_count);
    if (!tutti_args_given(args, "ranks") && shape->level_count + shape->dim_count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "neither a file nor a number of ranks (FILE, or -g RANKS and what else "
                          "makes a schedule)");
    if ((shape->level_count > 0 && multiply(shape->level, shape->level_count) != ranks) ||
        (shape->dim_count > 0 && multiply(shape->dim, shape->dim_count) != ranks))
        return tutti_fail(err, TUTTI_EINVAL, "'--%s %s' does not make %u ranks",
                          shape->dim_count > 0 ? "dims" : "levels",
                          tutti_args_text(args, shape->dim_count > 0 ? "dims" : "levels"), ranks);
    shape->rank_count = ranks;
    return 0;
}

static int generate(const struct tutti_args *args, const struct tutti_own *own,
                    struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_coll_params params = {
        .channel_count = (uint32_t)tutti_args_number(args, "channels"),
        .chunk_bytes = tutti_args_number(args, "chunk"),
        .slice_count = (uint32_t)tutti_args_number(args, "slices"),
        .slot_count = (uint32_t)tutti_args_number(args, "slots"),
    };
    struct tutti_shape shape = {0};
    int status = tutti_shared_params(args, &params, err);

    params.added = own->set;
    if (status < 0)
        return status;
    status = read_shape(args, &shape, err);
    if (status < 0)
        return status;
    if (tutti_args_given(args, "chunk") && params.chunk_bytes == 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '--chunk': a grain of '0' bytes (1 or more)");
    params.count = tutti_sizes_elements(params.collective, tutti_args_number(args, "bytes"),
                                        params.dtype, shape.rank_count);
    return tutti_coll_generate(own->algorithms, &params, &shape, ret, err);
}

/* ---- both ------------------------------------------------------------------------------------ */

static bool is_algorithm(const char *name)
{
    size_t count = 0;
    const struct tutti_algorithm *table = tutti_algorithms(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].name, name) == 0)
            return true;
    }
    return false;
}

int tutti_schedule_load(const struct tutti_args *args, struct tutti_own *ret_own,
                        struct tutti_schedule **ret, struct tutti_err *err)
{
    const char *file = tutti_args_operand(args, 0);
    struct tutti_own own = {.set = NULL};
    int status =
        file != NULL ? refuse_options(args, file, err) : tutti_own_open(args, false, &own, err);

    if (status == 0)
        status = file != NULL ? tutti_schedule_load_file(file, ret, err)
                              : generate(args, &own, ret, err);
    if (status < 0 && file != NULL && is_algorithm(file))
        status = tutti_fail(err, TUTTI_EINVAL, "there is no file '%s' (the algorithm: -a %s -g 4)",
                            file, file);
    if (status < 0)
        tutti_own_done(&own);
    else
        *ret_own = own;
    return status;
}

int tutti_schedule_wrap(const struct tutti_args *args, const struct tutti_schedule *schedule,
                        int status, struct tutti_err *err)
{
    const char *file = tutti_args_operand(args, 0);

    if (status == 0)
        return 0;
    return tutti_wrap(err, status, "%s", file != NULL ? file : schedule->name);
}

int tutti_schedule_walkable(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    uint64_t rounds = 0;

    for (uint32_t rank = 0; rank < schedule->rank_count && rounds <= ROUNDS_MAX; rank++)
        for (uint32_t lane = 0; lane < schedule->lane_count && rounds <= ROUNDS_MAX; lane++)
            rounds += schedule->ops->round_count(schedule, rank, lane);
    if (rounds > ROUNDS_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%u ranks have more than %d rounds of steps, too many to go through one "
                          "by one (fewer ranks or coarser chunks)",
                          schedule->rank_count, ROUNDS_MAX);
    return 0;
}
