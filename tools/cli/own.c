/* Reads schedules and plugins that a command line names; see own.h. */
#include "tools/cli/own.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/schedule/schedule_source.h"
#include "topo/topo.h"

/* ---- the list of -a -------------------------------------------------------------------------- */

/* A word of -a that is a file. */
static bool is_plugin(const char *word, size_t bytes)
{
    return memchr(word, '/', bytes) != NULL ||
           (bytes > 3 && memcmp(word + bytes - 3, ".so", 3) == 0);
}

static bool has_plugin(const char *text)
{
    for (const char *p = text; *p != '\0'; p += strspn(p, ",")) {
        size_t bytes = strcspn(p, ",");

        if (is_plugin(p, bytes))
            return true;
        p += bytes;
    }
    return false;
}

static void put(FILE *list, bool *first, const char *word, size_t bytes)
{
    fprintf(list, "%s%.*s", *first ? "" : ",", (int)bytes, word);
    *first = false;
}

/* Of the algorithms [first, first + count) those that serve what is asked for; if none does, all:
 * then it is said which would. */
static void put_plugin(const struct tutti_own *own, enum tutti_collective collective, size_t first,
                       size_t count, FILE *list, bool *ret_first)
{
    size_t serving = 0;

    for (int pass = 0; pass < 2 && serving == 0; pass++) {
        for (size_t i = first; i < first + count; i++) {
            const struct tutti_algorithm *algorithm = tutti_algorithm_at(own->set, i);

            if (pass == 0 && (algorithm->collectives >> collective & 1) == 0)
                continue;
            put(list, ret_first, algorithm->name, strlen(algorithm->name));
            serving++;
        }
    }
}

static int load_plugin(struct tutti_own *own, const char *word, size_t bytes, size_t *ret_first,
                       size_t *ret_count, struct tutti_err *err)
{
    char *path = strndup(word, bytes);
    int status = path == NULL ? tutti_nomem(err)
                              : tutti_algorithm_load(own->set, path, ret_first, ret_count, err);

    free(path);
    return status;
}

static bool stands_for_all(const char *word, size_t bytes)
{
    return (bytes == 3 && memcmp(word, "all", 3) == 0) ||
           (bytes == 4 && memcmp(word, "auto", 4) == 0);
}

/* Whether "auto" or "all" is among the words, beside nothing but plugins. */
static const char *find_all(const char *text)
{
    const char *found = NULL;
    size_t names = 0;

    for (const char *p = text; *p != '\0'; p += strspn(p, ",")) {
        size_t bytes = strcspn(p, ",");

        if (stands_for_all(p, bytes))
            found = p[1] == 'l' ? "all" : "auto";
        names += !is_plugin(p, bytes);
        p += bytes;
    }
    return names == 1 ? found : NULL;
}

/* Loads the plugins and writes the list anew; see `algorithms`. */
static int read_list(struct tutti_own *own, const char *text, enum tutti_collective collective,
                     FILE *list, struct tutti_err *err)
{
    const char *all = find_all(text);
    bool first = true;
    bool named = false; /* the schedule is: then it stands there */
    int status = 0;

    for (const char *p = text; status == 0; p++) {
        size_t bytes = strcspn(p, ",");
        size_t first_added = 0;
        size_t added = 0;

        if (is_plugin(p, bytes)) {
            status = load_plugin(own, p, bytes, &first_added, &added, err);
            if (status == 0 && all == NULL)
                put_plugin(own, collective, first_added, added, list, &first);
        } else if (all == NULL) {
            put(list, &first, p, bytes);
            named = named || (bytes == strlen(own->name) && memcmp(p, own->name, bytes) == 0);
        }
        p += bytes;
        if (*p == '\0')
            break;
    }
    if (status < 0)
        return tutti_wrap(err, status, "option '-a'");
    if (all != NULL)
        fputs(all, list);
    else if (own->schedule != NULL && !named)
        put(list, &first, own->name, strlen(own->name));
    return 0;
}

static int make_list(const struct tutti_args *args, struct tutti_own *own, struct tutti_err *err)
{
    enum tutti_collective collective = TUTTI_ALLREDUCE;
    size_t bytes = 0;
    FILE *list = open_memstream(&own->algorithms, &bytes);
    int status = 0;

    if (list == NULL)
        return tutti_nomem(err);
    (void)tutti_collective_find(tutti_args_text(args, "collective"), &collective, NULL);
    if (own->schedule != NULL)
        collective = own->schedule->contract.collective;
    if (own->alone)
        fputs(own->name, list);
    else
        status = read_list(own, tutti_args_text(args, "algorithm"), collective, list, err);
    if (fclose(list) != 0 && status == 0)
        status = tutti_nomem(err);
    return status;
}

/* ---- the file of --schedule ------------------------------------------------------------------ */

static bool is_taken(const struct tutti_own *own, const char *name)
{
    const struct tutti_algorithm *algorithm;

    for (size_t i = 0; (algorithm = tutti_algorithm_at(own->set, i)) != NULL; i++)
        if (strcmp(algorithm->name, name) == 0)
            return true;
    return false;
}

/* The name of the file without its folder, in characters that a name may have; and without its
 * ".schedule", if that is no other algorithm's name. */
static void name_after(const char *file, struct tutti_own *own)
{
    static const char end[] = ".schedule";
    char *name = own->name;
    const char *slash = strrchr(file, '/');
    size_t used = 0;

    for (const char *p = slash != NULL ? slash + 1 : file; *p != '\0'; p++) {
        bool good = isgraph((unsigned char)*p) && strchr(",#:/", *p) == NULL;

        if (used + 1 < TUTTI_OWN_NAME_BYTES)
            name[used++] = good ? *p : '_';
    }
    name[used] = '\0';
    if (strcmp(file, "-") == 0)
        (void)snprintf(name, TUTTI_OWN_NAME_BYTES, "stdin");
    used = strlen(name);
    if (used < sizeof(end) || strcmp(name + used + 1 - sizeof(end), end) != 0)
        return;
    name[used + 1 - sizeof(end)] = '\0';
    if (is_taken(own, name) || strcmp(name, "auto") == 0 || strcmp(name, "all") == 0 ||
        strcmp(name, "nccl") == 0)
        name[used + 1 - sizeof(end)] = '.';
}

/* What is not played is not simulated either: both would wait for ever, or write where nothing is.
 * A schedule that computes something else than it says may be asked what it takes. */
static int judge(struct tutti_own *own, const struct tutti_schedule *schedule,
                 struct tutti_err *err)
{
    int status = tutti_schedule_walkable(schedule, err);

    if (status == 0)
        status = tutti_schedule_check(schedule, err);
    if (status < 0)
        return status;
    status = tutti_schedule_prove(schedule, &own->why_not);
    own->proved = status == 0;
    return status == -TUTTI_ENOMEM ? tutti_nomem(err) : 0;
}

static int load_schedule(struct tutti_own *own, const char *file, struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    int status = tutti_schedule_load_file(file, &schedule, err);

    if (status < 0)
        return status;
    status = judge(own, schedule, err);
    if (status < 0)
        status = tutti_wrap(err, status, "%s", file);
    name_after(file, own);
    if (status == 0)
        status = tutti_algorithm_add_schedule(own->set, own->name, schedule, err);
    if (status < 0) {
        tutti_schedule_free(schedule);
        return status;
    }
    own->file = file;
    own->schedule = schedule;
    return 0;
}

int tutti_own_open(const struct tutti_args *args, bool has_schedule, struct tutti_own *ret,
                   struct tutti_err *err)
{
    const char *file = has_schedule ? tutti_args_text(args, "schedule") : NULL;
    struct tutti_own own = {.set = NULL};
    int status = 0;

    if (file != NULL || has_plugin(tutti_args_text(args, "algorithm")))
        status = tutti_algorithm_set_new(&own.set, err);
    if (status == 0 && file != NULL)
        status = load_schedule(&own, file, err);
    if (file != NULL && status < 0)
        status = tutti_wrap(err, status, "option '--schedule'");
    own.alone = file != NULL && !tutti_args_given(args, "algorithm") &&
                !tutti_args_is(args, "algorithm", "all");
    if (status == 0)
        status = make_list(args, &own, err);
    if (status < 0) {
        tutti_own_done(&own);
        return status;
    }
    *ret = own;
    return 0;
}

void tutti_own_done(struct tutti_own *own)
{
    tutti_algorithm_set_free(own->set);
    free(own->algorithms);
    *own = (struct tutti_own){.set = NULL};
}

/* ---- what it is asked for -------------------------------------------------------------------- */

static int refuse(const struct tutti_own *own, const char *option, const char *given,
                  const char *has, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '%s': '%s', but schedule '%s' has %s (that, or no %s)", option, given,
                      own->name, has, option);
}

/* Options about how the data are cut say nothing to a schedule that is alone. */
static int refuse_cuts(const struct tutti_args *args, const struct tutti_own *own,
                       struct tutti_err *err)
{
    static const char *const names[] = {"channels", "chunk", "slices", "slots"};

    for (size_t i = 0; own->alone && i < sizeof(names) / sizeof(names[0]); i++)
        if (tutti_args_given(args, names[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' says nothing to schedule '%s', which is cut as it "
                              "stands (without it)",
                              names[i], own->name);
    return 0;
}

int tutti_own_params(const struct tutti_args *args, const struct tutti_own *own,
                     struct tutti_coll_params *params, struct tutti_err *err)
{
    const struct tutti_contract *c;
    char root[16];

    params->added = own->set;
    if (own->schedule == NULL)
        return 0;
    c = &own->schedule->contract;
    (void)snprintf(root, sizeof(root), "%" PRIu32, c->root);
    if (tutti_args_given(args, "collective") && params->collective != c->collective)
        return refuse(own, "-c", tutti_args_text(args, "collective"),
                      tutti_collective_name(c->collective), err);
    if (tutti_args_given(args, "datatype") && params->dtype != c->dtype)
        return refuse(own, "-d", tutti_args_text(args, "datatype"), tutti_dtype_name(c->dtype),
                      err);
    if (tutti_args_given(args, "op") && tutti_collective_reduces(c->collective) &&
        params->op != c->op)
        return refuse(own, "-o", tutti_args_text(args, "op"), tutti_op_name(c->op), err);
    if (tutti_args_given(args, "root") && params->root != c->root)
        return refuse(own, "-r", tutti_args_text(args, "root"), root, err);
    params->collective = c->collective;
    params->dtype = c->dtype;
    params->op = c->op;
    params->root = c->root;
    return refuse_cuts(args, own, err);
}

/* One without a contract has no size to be scaled by. */
static bool scales(const struct tutti_schedule *schedule)
{
    return schedule->chunk_count > 0 && schedule->contract.collective != TUTTI_CUSTOM;
}

/* The smallest size has an element a chunk at least. */
static int check_least(const struct tutti_own *own, const struct tutti_sizes *sizes,
                       struct tutti_err *err)
{
    const struct tutti_schedule *s = own->schedule;
    const struct tutti_contract *c = &s->contract;
    uint64_t least = tutti_collective_bytes(c->collective, s->chunk_count, c->dtype, s->rank_count);

    if (tutti_own_count(own,
                        &(struct tutti_coll_params){.collective = c->collective, .dtype = c->dtype},
                        sizes->min_bytes, s->rank_count) > 0)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '-b': %" PRIu64 " bytes cannot be cut into the %" PRIu64
                      " chunks of schedule '%s' (%" PRIu64 " or more)",
                      sizes->min_bytes, s->chunk_count, own->name, least);
}

int tutti_own_sizes(const struct tutti_args *args, const struct tutti_own *own,
                    struct tutti_sizes *ret, struct tutti_err *err)
{
    static const char *const names[] = {"minbytes", "maxbytes", "stepfactor", "stepbytes"};
    static const char *const letters = "befi";
    const struct tutti_schedule *s = own->schedule;
    uint64_t bytes;
    int status;

    if (s == NULL || scales(s)) {
        status = tutti_sizes_read(args, ret, err);
        return status == 0 && own->alone ? check_least(own, ret, err) : status;
    }
    bytes = tutti_collective_bytes(s->contract.collective, s->contract.count, s->contract.dtype,
                                   s->rank_count);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (tutti_args_given(args, names[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '-%c': schedule '%s' is for its own size of %" PRIu64
                              " bytes alone (without it; one in chunks is for any size)",
                              letters[i], own->name, bytes);
    *ret = (struct tutti_sizes){.min_bytes = bytes, .max_bytes = bytes, .factor = 2, .count = 1};
    return 0;
}

uint64_t tutti_own_count(const struct tutti_own *own, const struct tutti_coll_params *params,
                         uint64_t bytes, uint32_t rank_count)
{
    uint64_t count;

    if (own->schedule != NULL && !scales(own->schedule))
        return own->schedule->contract.count;
    count = tutti_sizes_elements(params->collective, bytes, params->dtype, rank_count);
    return own->schedule == NULL ? count : count - count % own->schedule->chunk_count;
}

int tutti_own_fits(const struct tutti_own *own, uint32_t rank_count, const char *where,
                   struct tutti_err *err)
{
    if (own->schedule == NULL || own->schedule->rank_count == rank_count)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "schedule '%s' has %" PRIu32 " ranks, but %s %" PRIu32 " (the same number)",
                      own->name, own->schedule->rank_count, where, rank_count);
}

int tutti_own_fits_machine(const struct tutti_own *own, const struct tutti_topo *topo,
                           struct tutti_err *err)
{
    char where[160];

    (void)snprintf(where, sizeof(where), "'%s' has", topo->name);
    return tutti_own_fits(own, topo->rank_count, where, err);
}

/* ---- what is said of it ---------------------------------------------------------------------- */

void tutti_own_print(const struct tutti_own *own, FILE *out)
{
    const struct tutti_schedule *s = own->schedule;

    if (s == NULL)
        return;
    fprintf(out, "# schedule: %s: '%s', %" PRIu32 " rank%s, %" PRIu32 " lane%s", own->name, s->name,
            s->rank_count, s->rank_count == 1 ? "" : "s", s->lane_count,
            s->lane_count == 1 ? "" : "s");
    if (s->chunk_count > 0)
        fprintf(out, ", in %" PRIu64 " chunk%s", s->chunk_count, s->chunk_count == 1 ? "" : "s");
    if (own->proved)
        fprintf(out, "; proved\n");
    else
        fprintf(out, "; checked\n# not proved: %s\n", own->why_not.text);
}

void tutti_own_json(const struct tutti_own *own, struct tutti_json *json)
{
    const struct tutti_schedule *s = own->schedule;

    if (s == NULL)
        return;
    tutti_json_open(json, "schedule", '{');
    tutti_json_text(json, "file", own->file);
    tutti_json_text(json, "algorithm", own->name);
    tutti_json_text(json, "name", s->name);
    tutti_json_count(json, "ranks", s->rank_count);
    tutti_json_count(json, "lanes", s->lane_count);
    tutti_json_count(json, "chunks", s->chunk_count);
    tutti_json_bool(json, "proved", own->proved);
    if (!own->proved)
        tutti_json_text(json, "why_not_proved", own->why_not.text);
    tutti_json_close(json);
}
