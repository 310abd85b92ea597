/* Several trainings on one machine; see jobs.h. */
#include "tools/train/jobs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/jobs.h"
#include "sim/train.h"
#include "tools/cli/machine.h"
#include "tools/cli/model.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "topo/accelerator.h"
#include "topo/topo.h"

enum { JOBS_MAX = 16, NAME_BYTES = 32, STEPS = 20, SHIFTS = 16, SECONDS_MAX = 60 };

struct job {
    const char *name;
    char number[NAME_BYTES];
    const char *place; /* "packed", "spread", ranks */
    uint32_t devices;
    struct tutti_workload *model;
    struct tutti_strategy strategy;
    struct tutti_train_ask ask;
    bool has_precision;
    uint32_t said; /* a bit for each key */
    tutti_ps start_ps;
    struct tutti_topo *own;        /* as many devices, packed: for what a step is */
    struct tutti_footprint memory; /* of a device */
    struct tutti_schedule *step;
    uint32_t *ranks;
    uint32_t hosts;
};

struct jobs {
    const struct tutti_args *args;
    struct tutti_topo *topo;
    struct job job[JOBS_MAX];
    uint32_t count;
    struct tutti_job_shared shared[JOBS_MAX];
};

/* ---- what is asked --------------------------------------------------------------------------- */

static int refuse(const char *word, const char *why, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL, "option '--job': '%.60s': %s", word, why);
}

static int begin_job(struct jobs *jobs, const char *model, struct tutti_err *err)
{
    struct job *job = &jobs->job[jobs->count];

    if (jobs->count == JOBS_MAX)
        return refuse(model, "one job too many (16)", err);
    *job = (struct job){.name = job->number, .place = "packed"};
    (void)snprintf(job->number, sizeof(job->number), "%u", jobs->count + 1);
    job->ask = (struct tutti_train_ask){
        .size = sizeof(job->ask),
        .micro_batches = 1,
        .synthetic = true,
        .exact = true,
        .any_memory = tutti_args_flag(jobs->args, "any-memory"),
    };
    job->ask.use.fused_attention = true;
    jobs->count++;
    return tutti_model_load(jobs->args, model, &job->model, err);
}

static bool read_number(const char *text, uint64_t max, uint32_t *ret)
{
    uint64_t value;

    if (tutti_read_count(text, 1, max, &value, NULL) < 0)
        return false;
    *ret = (uint32_t)value;
    return true;
}

static int read_key(struct job *job, const char *word, const char *key, const char *value,
                    struct tutti_err *err)
{
    static const char *const keys[] = {"devices", "batch",    "accumulate", "name",
                                       "place",   "strategy", "precision",  "framework",
                                       "device",  "start",    "recompute"};
    size_t i = 0;
    int status = 0;

    while (i < sizeof(keys) / sizeof(keys[0]) && strcmp(key, keys[i]) != 0)
        i++;
    if ((job->said >> i & 1) != 0)
        return refuse(word, "said before of this job (once)", err);
    job->said |= i < sizeof(keys) / sizeof(keys[0]) ? UINT32_C(1) << i : 0;
    job->has_precision |= strcmp(key, "precision") == 0;
    if (strcmp(key, "devices") == 0)
        return read_number(value, 1 << 20, &job->devices)
                   ? 0
                   : refuse(word, "no number of devices (1 or more)", err);
    if (strcmp(key, "batch") == 0)
        return read_number(value, 1 << 24, &job->ask.use.batch)
                   ? 0
                   : refuse(word, "no number of samples (1 or more)", err);
    if (strcmp(key, "accumulate") == 0)
        return read_number(value, 65536, &job->ask.micro_batches)
                   ? 0
                   : refuse(word, "no number of micro-batches (1 to 65536)", err);
    if (strcmp(key, "name") == 0)
        job->name = value;
    else if (strcmp(key, "place") == 0)
        job->place = value;
    else if (strcmp(key, "strategy") == 0)
        status = tutti_strategy_named(value, &job->strategy, err);
    else if (strcmp(key, "precision") == 0)
        status = tutti_precision_find(value, &job->ask.use.precision, err);
    else if (strcmp(key, "framework") == 0)
        status = tutti_framework_find(value, &job->ask.use.framework, err);
    else if (strcmp(key, "device") == 0)
        status = tutti_accelerator_find(value, &job->ask.use.accelerator, err);
    else if (strcmp(key, "recompute") == 0)
        status = tutti_recompute_find(value, &job->ask.use.recompute, err);
    else if (strcmp(key, "start") == 0)
        status = tutti_read_time(value, &job->start_ps, err);
    else
        return refuse(word,
                      "no word of a job (model=, devices=, strategy=, batch=, accumulate=, "
                      "precision=, recompute=, framework=, device=, name=, place=, start=)",
                      err);
    return status < 0 ? tutti_wrap(err, status, "option '--job': '%.60s'", word) : 0;
}

static int read_word(struct jobs *jobs, const char *word, struct tutti_err *err)
{
    const char *equals = strchr(word, '=');
    char key[NAME_BYTES];

    if (equals == NULL || equals[1] == '\0' || (size_t)(equals - word) >= sizeof(key))
        return refuse(word, "no KEY=VALUE (model=resnet50, devices=8)", err);
    (void)snprintf(key, sizeof(key), "%.*s", (int)(equals - word), word);
    if (strcmp(key, "model") == 0)
        return begin_job(jobs, equals + 1, err);
    if (jobs->count == 0)
        return refuse(word, "of no job (each begins with model=MODEL)", err);
    return read_key(&jobs->job[jobs->count - 1], word, key, equals + 1, err);
}

/* Jobs say themselves what other options say of a single training. */
static int check_options(const struct tutti_args *args, struct tutti_err *err)
{
    static const char *const of_all[] = {"job",     "nodes",   "format",  "seq",   "vocab",
                                         "classes", "image",   "quiet",   "color", "predictions",
                                         "output",  "verbose", "columns", "help",  "any-memory"};

    for (size_t i = 0; i < args->command->option_count; i++) {
        const char *name = args->command->options[i].name;
        bool fits = false;

        for (size_t k = 0; k < sizeof(of_all) / sizeof(of_all[0]); k++)
            fits |= strcmp(name, of_all[k]) == 0;
        if (!fits && tutti_args_given(args, name))
            return tutti_fail(err, TUTTI_EINVAL,
                              "options '--job' and '--%s': each job says what it is (words of "
                              "--job)",
                              name);
    }
    return 0;
}

/* "0-3+8-11" */
static int read_ranks(const struct jobs *jobs, struct job *job, bool *taken, struct tutti_err *err)
{
    const char *at = job->place;
    uint32_t count = 0;

    for (;;) {
        char *end;
        unsigned long from = strtoul(at, &end, 10), to = from;

        if (end != at && *end == '-') {
            at = end + 1;
            to = strtoul(at, &end, 10);
        }
        if (end == at || (*end != '\0' && *end != '+') || to < from || to >= jobs->topo->rank_count)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--job': 'place=%.40s' (packed, spread or ranks below %u: "
                              "0-3+8-11)",
                              job->place, jobs->topo->rank_count);
        for (unsigned long rank = from; rank <= to; rank++) {
            if (taken[rank])
                return tutti_fail(err, TUTTI_EINVAL,
                                  "option '--job': 'place=%.40s': rank %lu is another's, or named "
                                  "twice",
                                  job->place, rank);
            taken[rank] = true;
            job->ranks[count++] = (uint32_t)rank;
        }
        if (*end == '\0')
            break;
        at = end + 1;
    }
    if (job->devices != 0 && job->devices != count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--job': 'place=%.40s' names %u ranks of 'devices=%u'",
                          job->place, count, job->devices);
    job->devices = count;
    return 0;
}

static int place(const struct jobs *jobs, struct job *job, bool *taken, struct tutti_err *err)
{
    const bool spread = strcmp(job->place, "spread") == 0;
    uint32_t last = UINT32_MAX;
    int status;

    job->ranks = calloc(jobs->topo->rank_count, sizeof(*job->ranks));
    if (job->ranks == NULL)
        return tutti_nomem(err);
    if (!spread && strcmp(job->place, "packed") != 0)
        status = read_ranks(jobs, job, taken, err);
    else if (job->devices == 0)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "option '--job': no devices (devices=N, or place= names ranks)");
    else
        status = tutti_jobs_place(jobs->topo, spread ? TUTTI_JOBS_SPREAD : TUTTI_JOBS_PACKED,
                                  job->devices, taken, job->ranks, err);
    if (status < 0)
        return tutti_wrap(err, status, "job '%s'", job->name);
    for (uint32_t i = 0; i < job->devices; i++) {
        const uint32_t node = tutti_topo_rank_node(jobs->topo, job->ranks[i]);
        const uint32_t host = tutti_topo_node(jobs->topo, node).host;

        job->hosts += host != last;
        last = host;
    }
    return 0;
}

/* A step is that of a machine of as many devices; its messages go where the job's ranks are. */
static int make_step(const struct jobs *jobs, struct job *job, struct tutti_err *err)
{
    const struct tutti_topo *own = jobs->topo;
    const struct tutti_accelerator *device;
    int status = 0;

    if (job->devices != jobs->topo->rank_count) {
        status = tutti_train_machine(jobs->topo, job->devices, &job->own, err);
        own = job->own;
    }
    if (status == 0 && job->strategy.name == NULL)
        status = tutti_strategy_named("ddp", &job->strategy, err);
    if (status == 0 && job->strategy.coordinated)
        return refuse(job->strategy.name, "servers are not modelled beside others (collectives)",
                      err);
    if (status < 0)
        return tutti_wrap(err, status, "job '%s'", job->name);
    if (job->ask.use.batch == 0)
        job->ask.use.batch = job->model->sample == TUTTI_SAMPLE_SEQUENCE ? 1 : 64;
    job->ask.optimizer = job->model->sample == TUTTI_SAMPLE_SEQUENCE ? TUTTI_OPTIMIZER_ADAM
                                                                     : TUTTI_OPTIMIZER_MOMENTUM;
    device =
        job->ask.use.accelerator != NULL ? job->ask.use.accelerator : tutti_topo_accelerator(own);
    if (!job->has_precision && device != NULL &&
        tutti_accelerator_flops(device, TUTTI_PRECISION_FP32) == 0)
        job->ask.use.precision = TUTTI_PRECISION_BF16; /* a TPU's */
    job->ask.topo = own;
    job->ask.model = job->model;
    job->ask.strategy = &job->strategy;
    status = tutti_train_footprint(&job->ask, &job->memory, err);
    if (status == 0)
        status = tutti_train_schedule(&job->ask, &job->step, err);
    return status < 0 ? tutti_wrap(err, status, "job '%s'", job->name) : 0;
}

/* Lines of the report tell jobs apart by their names; those without one have numbers. */
static int check_names(const struct jobs *jobs, struct tutti_err *err)
{
    for (uint32_t i = 0; i < jobs->count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(jobs->job[i].name, jobs->job[k].name) == 0)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "option '--job': jobs %u and %u are both named '%.40s' (each "
                                  "has a name of its own, its number if not given: name=)",
                                  k + 1, i + 1, jobs->job[i].name);
    return 0;
}

static int read_jobs(struct jobs *jobs, struct tutti_err *err)
{
    bool *taken = NULL;
    int status = check_options(jobs->args, err);

    if (status == 0)
        status =
            tutti_machine_load(tutti_args_operand(jobs->args, 0),
                               (uint32_t)tutti_args_number(jobs->args, "nodes"), &jobs->topo, err);
    for (uint32_t i = 0; status == 0; i++) {
        const char *word = tutti_args_word(jobs->args, "job", i);

        if (word == NULL)
            break;
        status = read_word(jobs, word, err);
    }
    if (status == 0)
        status = check_names(jobs, err);
    if (status < 0)
        return status;
    taken = calloc(jobs->topo->rank_count, sizeof(*taken));
    if (taken == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < jobs->count && status == 0; i++) {
        status = place(jobs, &jobs->job[i], taken, err);
        if (status == 0)
            status = make_step(jobs, &jobs->job[i], err);
    }
    free(taken);
    return status;
}

static void jobs_done(struct jobs *jobs)
{
    for (uint32_t i = 0; i < jobs->count; i++) {
        struct job *job = &jobs->job[i];

        tutti_schedule_free(job->step);
        tutti_topo_free(job->own);
        tutti_model_free(job->model);
        free(job->ranks);
    }
    tutti_topo_free(jobs->topo);
}

/* ---- what is printed ------------------------------------------------------------------------- */

static const struct tutti_column columns[] = {
    {"job", "job", "", TUTTI_CELL_TEXT},
    {"model", "model", "", TUTTI_CELL_TEXT},
    {"strategy", "strategy", "", TUTTI_CELL_TEXT},
    {"devices", "devices", "", TUTTI_CELL_COUNT},
    {"hosts", "hosts", "", TUTTI_CELL_COUNT},
    {"place", NULL, "", TUTTI_CELL_TEXT},
    {"alone_s", "alone", "s", TUTTI_CELL_NUMBER},
    {"step_time_s", "shared", "s", TUTTI_CELL_NUMBER},
    {"loses_percent", "loses", "%", TUTTI_CELL_NUMBER},
    {"collectives_percent", "collectives", "%", TUTTI_CELL_NUMBER},
    {"link", NULL, "", TUTTI_CELL_TEXT},
    {"start_later_s", NULL, "", TUTTI_CELL_NUMBER},
    {"started_later_step_time_s", NULL, "", TUTTI_CELL_NUMBER},
    {"asked_percent", "asks", "%", TUTTI_CELL_NUMBER},
    {"asked_by_all_percent", "all", "%", TUTTI_CELL_NUMBER},
    {"memory_GB", "memory", "GB", TUTTI_CELL_NUMBER},
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]), LINK_BYTES = 2 * TUTTI_NODE_NAME_BYTES + 2 };

static const char *link_text(const struct jobs *jobs, uint32_t index, char buf[LINK_BYTES])
{
    char from[TUTTI_NODE_NAME_BYTES], to[TUTTI_NODE_NAME_BYTES];
    struct tutti_link link;

    if (index == UINT32_MAX)
        return "none";
    link = tutti_topo_link(jobs->topo, index);
    (void)snprintf(buf, LINK_BYTES, "%s>%s", tutti_topo_node_name(jobs->topo, link.from, from),
                   tutti_topo_node_name(jobs->topo, link.to, to));
    return buf;
}

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

static int add_row(const struct jobs *jobs, uint32_t i, struct tutti_table *table,
                   struct tutti_err *err)
{
    const struct job *job = &jobs->job[i];
    const struct tutti_job_shared *s = &jobs->shared[i];
    const bool shares = s->link != UINT32_MAX;
    char link[LINK_BYTES];
    int status = tutti_table_add(
        table, job->name, job->model->name, job->strategy.name, (uint64_t)job->devices,
        (uint64_t)job->hosts, job->place, seconds(s->alone_ps), seconds(s->step_ps),
        100 * ((double)s->step_ps / (double)s->alone_ps - 1),
        100 * (double)s->calls_ps / (double)s->alone_ps, link_text(jobs, s->link, link),
        s->shifted_ps > 0 ? seconds(s->shift_ps) : NAN,
        s->shifted_ps > 0 ? seconds(s->shifted_ps) : NAN, shares ? 100 * s->asked : NAN,
        shares ? 100 * s->asked_by_all : NAN, (double)job->memory.total_bytes / 1e9);

    return status < 0 ? tutti_nomem(err) : 0;
}

static void print_links(const struct jobs *jobs, FILE *out)
{
    char link[LINK_BYTES];

    for (uint32_t i = 0; i < jobs->count; i++) {
        const struct tutti_job_shared *s = &jobs->shared[i];

        if (s->link == UINT32_MAX)
            fprintf(out, "# job %s:    shares no link\n", jobs->job[i].name);
        else
            fprintf(out,
                    "# job %s:    of the links that it shares most is asked of %s: %.1f %% of its "
                    "rate, %.1f %% by this job\n",
                    jobs->job[i].name, link_text(jobs, s->link, link), 100 * s->asked_by_all,
                    100 * s->asked);
    }
}

static void print_too_large(const struct jobs *jobs, FILE *out)
{
    for (uint32_t i = 0; i < jobs->count; i++) {
        const struct tutti_footprint *f = &jobs->job[i].memory;

        if (!f->fits && f->capacity_bytes > 0)
            fprintf(out, "# job %s:    does not fit: %.4g GB of %.4g GB a device (--any-memory)\n",
                    jobs->job[i].name, (double)f->total_bytes / 1e9,
                    (double)f->capacity_bytes / 1e9);
    }
}

/* Where it would help if the second of two began later. */
static void print_shift(const struct jobs *jobs, FILE *out)
{
    const struct tutti_job_shared *s = jobs->shared;
    char number[TUTTI_NUMBER_TEXT_BYTES];

    if (jobs->count != 2 || s[1].shifted_ps == 0)
        return;
    fprintf(out, "# starts:   with job %s begun %s s later", jobs->job[1].name,
            tutti_number_text(seconds(s[1].shift_ps), number));
    for (int j = 0; j < 2; j++)
        fprintf(out, "%s job %s loses %.1f %%", j == 0 ? "," : " and", jobs->job[j].name,
                100 * ((double)s[j].shifted_ps / (double)s[j].alone_ps - 1));
    fputs(": collectives of one fall into the work of the other as long as steps are as long\n",
          out);
}

static int print(const struct jobs *jobs, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_table *table = tutti_table_new(columns, COLUMNS);
    struct tutti_json json = {.out = sink->out};
    struct tutti_page page;
    int status = table == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < jobs->count && status == 0; i++)
        status = add_row(jobs, i, table, err);
    if (status == 0 && tutti_args_is(jobs->args, "format", "json")) {
        tutti_json_open(&json, NULL, '{');
        tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
        tutti_json_text(&json, "topology", jobs->topo->name);
        tutti_table_json(table, "jobs", &json);
        tutti_json_close(&json);
    } else if (status == 0 && tutti_args_is(jobs->args, "format", "csv")) {
        tutti_table_csv(table, sink->out);
    } else if (status == 0 && (status = tutti_page_open(&page, sink, err)) == 0) {
        fprintf(page.out, "# tutti %s train: %u job%s on %s\n", TUTTI_BUILD_VERSION, jobs->count,
                jobs->count == 1 ? "" : "s", jobs->topo->name);
        fputs("# messages: of rings, without protocols; links shared as a fluid, max-min fair\n",
              page.out);
        tutti_table_print(table, &page);
        print_too_large(jobs, page.out);
        print_links(jobs, page.out);
        print_shift(jobs, page.out);
        status = tutti_page_close(&page, 0, err);
    }
    tutti_table_free(table);
    return status;
}

int tutti_train_jobs(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err)
{
    struct jobs jobs = {.args = args, .count = 0};
    struct tutti_job_on_ranks on_ranks[JOBS_MAX];
    struct tutti_jobs_opts opts = {.size = sizeof(opts),
                                   .jobs = on_ranks,
                                   .steps = STEPS,
                                   .rails = true,
                                   .shifts = SHIFTS,
                                   .seconds_max = SECONDS_MAX};
    int status = read_jobs(&jobs, err);

    for (uint32_t i = 0; i < jobs.count && status == 0; i++) {
        const struct job *job = &jobs.job[i];

        on_ranks[i] = (struct tutti_job_on_ranks){job->name, job->step, job->ranks, job->start_ps};
    }
    opts.topo = jobs.topo;
    opts.job_count = jobs.count;
    if (status == 0)
        status = tutti_jobs_play(&opts, jobs.shared, err);
    if (status == 0)
        status = print(&jobs, sink, err);
    jobs_done(&jobs);
    return status;
}
