/* Tables, machines and times for fits; see fit_cases.h. */
#include "tools/calibrate/fit_cases.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/status.h"
#include "tools/validate/measured_run.h"

enum { THREADS_MAX = 64, SECONDS_MAX = 2 /* of a size, or it is not fitted to */ };

/* Messages larger than this only repeat what those of this size tell, and take long to play. */
static const uint64_t message_bytes_max = UINT64_C(4) << 30;

/* ---- coming and going ------------------------------------------------------------------------ */

static void close_case(struct tutti_fit_case *one)
{
    tutti_predict_memory_free(one->memory);
    tutti_nccl_env_free(one->env);
    if (!one->lent)
        tutti_topo_free(one->topo);
}

void tutti_fit_cases_close(struct tutti_fit_cases *cases)
{
    for (size_t i = 0; i < cases->case_count; i++)
        close_case(&cases->cases[i]);
    free(cases->cases);
    free(cases->points);
    tutti_measured_free(&cases->set);
    *cases = (struct tutti_fit_cases){.case_count = 0};
}

static bool is_ncclish(const struct tutti_measured_table *table)
{
    return strcmp(table->library, "nccl") == 0 || strcmp(table->library, "rccl") == 0;
}

/* How far a size is from its power of two, in octaves. */
static double distance(uint64_t bytes)
{
    double octaves = log2((double)bytes);

    return fabs(octaves - floor(octaves + 0.5));
}

/* Of a power of two the row nearest to it. */
static void take_points(const struct tutti_measured_table *table, struct tutti_fit_cases *cases,
                        struct tutti_fit_case *one)
{
    int before = -1;

    one->first_point = cases->point_count;
    for (size_t i = 0; i < table->row_count; i++) {
        const struct tutti_measured_row *row = &table->rows[i];
        double us = isnan(row->out_us) ? row->in_us : row->out_us;
        struct tutti_fit_point *last = &cases->points[cases->point_count];
        int octave;

        if (row->bytes == 0 || !(us > 0) || (one->messages && row->bytes > message_bytes_max))
            continue;
        octave = (int)floor(log2((double)row->bytes) + 0.5);
        if (octave == before && distance(row->bytes) >= distance(last[-1].bytes))
            continue;
        last -= octave == before;
        *last = (struct tutti_fit_point){.bytes = row->bytes, .measured_us = us};
        cases->point_count = (size_t)(last - cases->points) + 1;
        before = octave;
    }
    one->point_count = cases->point_count - one->first_point;
}

/* Where one process launches on all GPUs, small sizes tell how fast its CPU does, and of the GPUs
 * only that they take no longer: in traces/measured/ that is 2.9 to 8.3 us a GPU, and 6 to 14 by
 * threads of one process, for 4.3; taken for the GPUs' it would make launches of them several times
 * too long. What the smallest sizes took is therefore the least that a fit expects of the table,
 * as far as a CPU may take it. More channels are more to launch: on 8 H100 35.1 us for a few bytes
 * by 1 channel and 44.4 for 1 MiB by 24, which a process for each GPU does in 28. So the least of a
 * size that took up to a third more than the smallest is what it took. */
static void expect_launches(struct tutti_fit_cases *cases, const struct tutti_fit_case *one)
{
    const uint64_t small = 4096;
    const double slowest = 14.1 / 4.3, fastest = 2.9 / 4.3, rise = 4.0 / 3;
    struct tutti_fit_point *points = cases->points + one->first_point;
    double least = one->least_us, shortest = INFINITY;

    for (size_t i = 0; i < one->point_count; i++) {
        if (points[i].bytes <= small)
            shortest = fmin(shortest, points[i].measured_us);
    }
    /* Between hosts it may be the network's. */
    if (isfinite(shortest) && one->table->host_count == 1)
        least = fmin(slowest * least, fmax(fastest * least, shortest));
    for (size_t i = 0; i < one->point_count; i++) {
        bool launching = one->table->host_count == 1 && points[i].measured_us < rise * least;

        points[i].fitted_least_us = launching ? fmax(least, points[i].measured_us) : least;
    }
}

/* What a table is chosen for. */
enum part { FITTED, ASIDE, JUDGED, PARTS };

static enum part part_of(const struct tutti_fit_choice *choice,
                         const struct tutti_measured_table *table)
{
    if (tutti_measured_matches(choice->fitted, table))
        return FITTED;
    if (choice->aside != NULL && tutti_measured_matches(choice->aside, table))
        return ASIDE;
    return choice->judged != NULL && tutti_measured_matches(choice->judged, table) ? JUDGED : PARTS;
}

/* 1: it became a case; 0: it cannot be one. */
static int open_case(struct tutti_fit_cases *cases, const struct tutti_measured_table *table,
                     struct tutti_topo *machine, enum part part, struct tutti_err *err)
{
    struct tutti_fit_case one = {.table = table,
                                 .topo = machine,
                                 .lent = machine != NULL,
                                 .weight = part == ASIDE ? TUTTI_FIT_ASIDE_WEIGHT : 1,
                                 .judged = part == JUDGED};
    int status = one.lent ? 0 : tutti_topo_from_spec(table->machine, &one.topo, NULL);

    if (status < 0)
        return status == -TUTTI_ENOMEM ? tutti_nomem(err) : 0;
    if (one.topo->rank_count != table->rank_count || one.topo->hardware == NULL) {
        close_case(&one);
        return 0;
    }
    status = tutti_measured_env(table, &one.env, &one.version, err);
    if (status == 0)
        status = tutti_topo_bound_law(one.topo, table->collective, 0, &one.law, err);
    if (status == 0)
        status = tutti_predict_memory_new(&one.memory, err);
    if (status < 0) {
        close_case(&one);
        return status;
    }
    one.machine = tutti_calib_machine_of(one.topo);
    one.messages = table->collective == TUTTI_ALLTOALL || table->collective == TUTTI_SENDRECV;
    take_points(table, cases, &one);
    one.least_us = tutti_least_us(table);
    expect_launches(cases, &one);
    cases->cases[cases->case_count++] = one;
    return 1;
}

/* Whether two tables differ in nothing that their times hang on, which are what each took to launch
 * where one process did. */
static bool are_twins(const struct tutti_fit_case *a, const struct tutti_fit_case *b)
{
    const struct tutti_measured_table *x = a->table, *y = b->table;

    if (a->least_us > 0 || b->least_us > 0)
        return a == b;
    return x->collective == y->collective && x->dtype == y->dtype && x->op == y->op &&
           x->rank_count == y->rank_count &&
           tutti_timed_iterations(x) == tutti_timed_iterations(y) &&
           (a->lent || strcmp(x->machine, y->machine) == 0) && strcmp(x->env, y->env) == 0 &&
           a->version == b->version;
}

static void find_twins(struct tutti_fit_cases *cases)
{
    for (size_t c = 0; c < cases->case_count; c++) {
        size_t first = 0;

        while (!are_twins(&cases->cases[first], &cases->cases[c]))
            first++; /* to itself at most */
        cases->cases[c].like = first;
    }
}

/* What an option asks for is there, or was meant to be. */
static int check_chosen(const struct tutti_fit_cases *cases, const char *option, bool given,
                        size_t count, struct tutti_err *err)
{
    if (!given || count > 0)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '%s': none of %zu tables is chosen besides those fitted to, of NCCL "
                      "or RCCL, and of a machine that is known",
                      option, cases->set.table_count);
}

static int open_all(struct tutti_fit_cases *cases, struct tutti_topo *machine,
                    const struct tutti_fit_choice *choice, struct tutti_err *err)
{
    size_t count[PARTS] = {0};
    size_t row_count = 0;
    int status = 0;

    for (size_t i = 0; i < cases->set.table_count; i++)
        row_count += cases->set.tables[i].row_count;
    cases->cases = calloc(cases->set.table_count + 1, sizeof(*cases->cases));
    cases->points = calloc(row_count + 1, sizeof(*cases->points));
    if (cases->cases == NULL || cases->points == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < cases->set.table_count; i++) {
        const struct tutti_measured_table *table = &cases->set.tables[i];
        enum part part = part_of(choice, table);

        if (part == PARTS)
            continue;
        status = is_ncclish(table) ? open_case(cases, table, machine, part, err) : 0;
        if (status < 0)
            return status;
        cases->left_out_count += status == 0;
        count[part] += status == 1;
    }
    find_twins(cases);
    if (count[FITTED] == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "none of %zu tables is chosen, of NCCL or RCCL, and of a machine that "
                          "is known",
                          cases->set.table_count);
    status = check_chosen(cases, "--aside", choice->aside != NULL, count[ASIDE], err);
    return status < 0 ? status
                      : check_chosen(cases, "--judge", choice->judged != NULL, count[JUDGED], err);
}

int tutti_fit_cases_open(struct tutti_measured *set, struct tutti_topo *machine,
                         const struct tutti_fit_choice *choice, uint32_t thread_count,
                         struct tutti_fit_cases *ret, struct tutti_err *err)
{
    struct tutti_fit_cases cases = {.set = *set, .thread_count = thread_count};
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int status;

    if (cases.thread_count == 0)
        cases.thread_count = online > 0 ? (uint32_t)online : 1;
    if (cases.thread_count > THREADS_MAX)
        cases.thread_count = THREADS_MAX;
    status = open_all(&cases, machine, choice, err);
    if (status < 0) {
        cases.set = (struct tutti_measured){0}; /* still the caller's */
        tutti_fit_cases_close(&cases);
        return status;
    }
    *set = (struct tutti_measured){0};
    *ret = cases;
    return 0;
}

/* ---- predicting ------------------------------------------------------------------------------ */

/* What the threads share: cases are taken one by one. */
struct work {
    struct tutti_fit_cases *cases;
    const struct tutti_calib *calib;
    const struct tutti_calib *base;
    const struct tutti_fit_some *some;
    double *times;
    bool *is_new;         /* [point]: of this call; of who has the case */
    pthread_mutex_t lock; /* guards next, status and err */
    size_t next;
    int status;
    struct tutti_err err;
};

static int predict_point(const struct tutti_fit_case *one, double least_us,
                         const struct tutti_protocol *protocols, struct tutti_fit_point *point,
                         double *ret, struct tutti_err *err)
{
    const struct tutti_measured_table *table = one->table;
    struct tutti_ask ask = {
        .size = sizeof(struct tutti_ask),
        .topo = one->topo,
        .algorithm = "nccl",
        .params = {.collective = table->collective, .dtype = table->dtype, .op = table->op},
        .protocol = "auto",
        .protocols = protocols,
        .model = TUTTI_MODEL_FAIR,
        .as_nccl = one->version,
        .env = one->env,
        .bound_law = &one->law,
        .iteration_count = tutti_timed_iterations(table),
        .seconds_max = SECONDS_MAX,
        .memory = one->memory,
        .empty = true,
    };
    struct tutti_answer answer;
    int status;

    ask.params.count = tutti_collective_count_for(table->collective, point->bytes, table->dtype,
                                                  one->topo->rank_count);
    status = tutti_predict(&ask, &answer, err);
    if (status == -TUTTI_EINVAL || status == -TUTTI_ELACK) { /* what it would run is not modelled */
        ask.algorithm = "nccl:ring";
        status = tutti_predict(&ask, &answer, err);
    }
    if (status == -TUTTI_ENOMEM)
        return status;
    if (status < 0 || answer.time_ps <= 0) {
        point->wrong = true;
        *ret = 0;
        return 0;
    }
    point->protocol = strcmp(answer.protocol, "ll") == 0      ? 0
                      : strcmp(answer.protocol, "ll128") == 0 ? 1
                                                              : 2;
    point->switches = strncmp(answer.algorithm, "nccl:nvls", 9) == 0;
    *ret = log(fmax((double)answer.time_ps / (double)TUTTI_PS_PER_US, least_us));
    return 0;
}

static struct tutti_calibrated compose(const struct work *work,
                                       const struct tutti_calib_machine *machine)
{
    const struct tutti_calib *layers[] = {work->calib, work->base};

    return tutti_calib_compose(layers, work->base != NULL ? 2 : 1, machine);
}

/* A point of the same size of a twin before `one` that was predicted just now, or NULL. */
static const struct tutti_fit_point *find_twin(const struct work *work,
                                               const struct tutti_fit_case *one, uint64_t bytes)
{
    const struct tutti_fit_cases *cases = work->cases;

    for (size_t c = one->like; &cases->cases[c] != one; c++) {
        const struct tutti_fit_case *twin = &cases->cases[c];

        for (size_t i = twin->first_point;
             twin->like == one->like && i < twin->first_point + twin->point_count; i++) {
            if (work->is_new[i] && cases->points[i].bytes == bytes)
                return &cases->points[i];
        }
    }
    return NULL;
}

/* `made`: what all twins share; made when it is first needed. */
static int predict_case(const struct work *work, struct tutti_calibrated *made, bool *is_made,
                        struct tutti_fit_case *one, struct tutti_err *err)
{
    const struct tutti_fit_case *first = &work->cases->cases[one->like];

    for (size_t i = one->first_point; i < one->first_point + one->point_count; i++) {
        struct tutti_fit_point *point = &work->cases->points[i];
        struct tutti_fit_point seen = *point;
        const struct tutti_fit_point *twin;
        double least_us = work->cases->judges ? one->least_us : point->fitted_least_us;
        int status = 0;

        if (point->wrong ||
            (work->some != NULL && !work->some->takes(work->some->context, one, point)))
            continue;
        twin = find_twin(work, one, point->bytes);
        if (twin == NULL) {
            if (!*is_made)
                *made = compose(work, &first->machine);
            *is_made = true;
            status = predict_point(first, least_us, made->protocols, &seen, &work->times[i], err);
        } else {
            seen.protocol = twin->protocol;
            seen.switches = twin->switches;
            seen.wrong = twin->wrong;
            work->times[i] = work->times[twin - work->cases->points];
        }
        if (status < 0)
            return status;
        work->is_new[i] = true;
        if (work->some == NULL) /* else of a trial, which may run in another protocol */
            *point = seen;
        point->wrong = seen.wrong;
    }
    return 0;
}

/* All cases that ask for the same times as `first`, the first of them. */
static int predict_twins(const struct work *work, size_t first, struct tutti_err *err)
{
    struct tutti_fit_cases *cases = work->cases;
    struct tutti_calibrated made = {.value_count = 0};
    bool is_made = false;
    int status = 0;

    for (size_t c = first; c < cases->case_count && status == 0; c++) {
        if (cases->cases[c].like == first)
            status = predict_case(work, &made, &is_made, &cases->cases[c], err);
    }
    return status;
}

static void *predict_cases(void *context)
{
    struct work *work = context;
    struct tutti_err err = {""};
    int status = 0;

    for (;;) {
        size_t next;

        pthread_mutex_lock(&work->lock);
        if (status < 0 && work->status == 0) {
            work->status = status;
            work->err = err;
        }
        next = work->status == 0 ? work->next++ : work->cases->case_count;
        pthread_mutex_unlock(&work->lock);
        if (next >= work->cases->case_count)
            return NULL;
        if (work->cases->cases[next].like == next)
            status = predict_twins(work, next, &err);
    }
}

int tutti_fit_cases_predict(struct tutti_fit_cases *cases, const struct tutti_calib *calib,
                            const struct tutti_calib *base, const struct tutti_fit_some *some,
                            double *times, struct tutti_err *err)
{
    struct work work = {.cases = cases, .calib = calib, .base = base, .some = some, .times = times};
    pthread_t threads[THREADS_MAX];
    uint32_t started = 0;

    work.is_new = calloc(cases->point_count + 1, sizeof(*work.is_new));
    if (work.is_new == NULL)
        return tutti_nomem(err);
    pthread_mutex_init(&work.lock, NULL);
    while (started + 1 < cases->thread_count &&
           pthread_create(&threads[started], NULL, predict_cases, &work) == 0)
        started++;
    (void)predict_cases(&work); /* this one too: fewer threads only take longer */
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&work.lock);
    free(work.is_new);
    if (work.status < 0 && err != NULL)
        *err = work.err;
    return work.status;
}
