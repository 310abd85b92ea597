/* Elastic training simulated: what groups of each size take, and what losses cost; elastic.h. */
#include "tools/train/elastic.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/predict.h"
#include "tools/cli/output.h"
#include "tools/train/going_on.h"
#include "topo/topo.h"

enum { WEIGHT_BYTES = 4 };

struct pricing {
    const struct tutti_args *args;
    const struct tutti_train_question *q;
    const struct tutti_train_found *found; /* of all members */
    uint32_t member_devices;
    uint64_t samples; /* of a step: the global batch */
};

/* Weights, and what the optimizer keeps of each. */
static uint64_t state_bytes(const struct pricing *p)
{
    enum tutti_optimizer optimizer = p->q->ask.optimizer;
    uint64_t numbers = optimizer == TUTTI_OPTIMIZER_ADAM       ? 3
                       : optimizer == TUTTI_OPTIMIZER_MOMENTUM ? 2
                                                               : 1;

    return p->found->answer.parameters * numbers * WEIGHT_BYTES;
}

static int broadcast(const struct pricing *p, const struct tutti_topo *topo, tutti_ps *ret,
                     struct tutti_err *err)
{
    struct tutti_answer answer = {.time_ps = 0};
    struct tutti_ask ask = {
        .size = sizeof(ask),
        .topo = topo,
        .params = {.collective = TUTTI_BROADCAST,
                   .dtype = TUTTI_FLOAT32,
                   .count = state_bytes(p) / WEIGHT_BYTES},
    };
    int status = topo->rank_count > 1 ? tutti_predict(&ask, &answer, err) : 0;

    if (status == 0)
        *ret = answer.time_ps;
    return status;
}

/* The same global batch on fewer devices; what does not divide, the slowest has. */
static int price(void *context, uint32_t members, struct tutti_elastic_price *ret,
                 struct tutti_err *err)
{
    const struct pricing *p = context;
    uint32_t devices = members * p->member_devices;
    bool all = devices == p->q->topo->rank_count;
    struct tutti_topo *topo = NULL;
    struct tutti_train_question q = *p->q;
    struct tutti_train_found *found = calloc(1, sizeof(*found));
    uint64_t parts;
    int status = found == NULL ? tutti_nomem(err) : 0;

    if (status == 0)
        status = tutti_train_machine(p->q->topo, devices, &topo, err);
    parts = devices * (q.micro_batch > 0 ? q.micro_batch : q.ask.micro_batches);
    q.global_batch = (p->samples + parts - 1) / parts * parts;
    if (status == 0)
        status = tutti_train_ask_one(p->args, &q, topo, found, err);
    if (status == 0)
        status = broadcast(p, topo, &ret->broadcast_ps, err);
    if (status == 0) {
        ret->step_ps = all ? p->found->answer.step_ps : found->answer.step_ps;
        ret->samples = p->samples;
    }
    tutti_topo_free(topo);
    free(found);
    return status < 0 ? tutti_wrap(err, status, "a group of %u workers", members) : 0;
}

static int read_members(const struct tutti_args *args, const struct tutti_train_question *q,
                        struct tutti_train_elastic *ret, struct tutti_elastic_opts *opts,
                        struct tutti_err *err)
{
    const struct tutti_topo *topo = q->topo;
    uint32_t workers = topo->host_count > 1 ? topo->host_count : topo->rank_count;
    struct tutti_train_elastic_range range = {.least = 0};
    int status = tutti_train_elastic_read(args, &range, err);

    if (status < 0)
        return status;
    if (range.most > workers)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--elastic': '%s' of a machine of %u workers (MAX at most that)",
                          tutti_args_text(args, "elastic"), workers);
    ret->asked = true;
    ret->members = range.most;
    ret->member_devices = topo->rank_count / workers;
    opts->params.member_count = range.most;
    opts->params.least_members = range.least;
    return 0;
}

static int check(const struct tutti_args *args, const struct tutti_train_question *q,
                 struct tutti_err *err)
{
    if (q->strategy.coordinated)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--elastic' is of collectives: servers go on without workers as "
                          "it is");
    if (q->steps == 0 || tutti_args_given(args, "devices"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--elastic' is of a training of some length on one machine "
                          "(--steps N, and no --devices)");
    if (q->servers.losses.supervised)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--perturb': '%.60s' of an elastic training (workers alone: "
                          "worker0, ...)",
                          q->servers.losses.text);
    return 0;
}

int tutti_train_elastic_ask(const struct tutti_args *args, const struct tutti_train_question *q,
                            const struct tutti_train_found *found, struct tutti_train_elastic *ret,
                            struct tutti_err *err)
{
    const struct tutti_train_losses *losses = &q->servers.losses;
    struct pricing pricing = {.args = args, .q = q, .found = found};
    struct tutti_elastic_opts opts = {.size = sizeof(opts),
                                      .params = {.size = sizeof(opts.params)},
                                      .price = price,
                                      .context = &pricing,
                                      .rendezvous_ps = losses->rendezvous_ps,
                                      .detect_ps = losses->detect_ps,
                                      .changes = losses->change,
                                      .change_count = losses->change_count,
                                      .mtbf_ps = losses->mtbf_ps,
                                      .restart_ps = losses->restart_ps,
                                      .seed = q->servers.ask.seed};
    int status;

    *ret = (struct tutti_train_elastic){.asked = false};
    if (!tutti_args_given(args, "elastic"))
        return 0;
    status = check(args, q, err);
    if (status == 0)
        status = read_members(args, q, ret, &opts, err);
    if (status < 0)
        return status;
    opts.params.last_step = q->steps;
    opts.save_every_ps = q->servers.ask.save_every_ps;
    pricing.member_devices = ret->member_devices;
    pricing.samples = found->answer.samples;
    if (q->servers.ask.save_bytes_per_s > 0)
        opts.save_ps = opts.restore_ps =
            tutti_wire_ps(state_bytes(&pricing), q->servers.ask.save_bytes_per_s);
    return tutti_elastic_play(&opts, &ret->result, err);
}

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

static double rate(uint64_t count, tutti_ps ps)
{
    return ps > 0 ? (double)count / seconds(ps) : 0;
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

void tutti_train_elastic_print(const struct tutti_train_elastic *elastic, FILE *out)
{
    const struct tutti_elastic *e = &elastic->result;
    char number[TUTTI_NUMBER_TEXT_BYTES];

    if (!elastic->asked)
        return;
    fprintf(out, "# elastic:  %" PRIu64 " steps in %s s, ", e->steps,
            tutti_number_text(seconds(e->total_ps), number));
    fprintf(out, "%s steps/s, ", tutti_number_text(rate(e->steps, e->total_ps), number));
    fprintf(out, "%s samples/s, by %u to ",
            tutti_number_text(rate(e->samples, e->total_ps), number), e->least);
    fprintf(out, "%u workers of %u device%s; ", e->most, elastic->member_devices,
            plural(elastic->member_devices));
    fprintf(out, "%" PRIu64 " loss%s, ", e->failures, e->failures == 1 ? "" : "es");
    if (e->left > 0)
        fprintf(out, "%" PRIu64 " left, ", e->left);
    fprintf(out, "%" PRIu64 " step%s broken off (%s s)", e->broken_off, plural(e->broken_off),
            tutti_number_text(seconds(e->broken_ps), number));
    if (e->repeated > 0)
        fprintf(out, ", %" PRIu64 " made again", e->repeated);
    fprintf(out, ", %" PRIu64 " group%s met (%s s), ", e->groups, plural(e->groups),
            tutti_number_text(seconds(e->rendezvous_ps), number));
    fprintf(out, "state given to who came (%s s)",
            tutti_number_text(seconds(e->broadcast_ps), number));
    if (e->waiting_ps > 0)
        fprintf(out, ", too few for %s s", tutti_number_text(seconds(e->waiting_ps), number));
    if (e->checkpoints > 0)
        fprintf(out, ", %" PRIu64 " checkpoint%s", e->checkpoints, plural(e->checkpoints));
    fputc('\n', out);
}

void tutti_train_elastic_json(const struct tutti_train_elastic *elastic, struct tutti_json *json)
{
    const struct tutti_elastic *e = &elastic->result;

    if (!elastic->asked)
        return;
    tutti_json_open(json, "elastic", '{');
    tutti_json_count(json, "workers", elastic->members);
    tutti_json_count(json, "devices_per_worker", elastic->member_devices);
    tutti_json_count(json, "steps", e->steps);
    tutti_json_number(json, "total_s", seconds(e->total_ps));
    tutti_json_number(json, "steps_per_s", rate(e->steps, e->total_ps));
    tutti_json_number(json, "samples_per_s", rate(e->samples, e->total_ps));
    tutti_json_count(json, "least_workers", e->least);
    tutti_json_count(json, "most_workers", e->most);
    tutti_json_count(json, "losses", e->failures);
    tutti_json_count(json, "left", e->left);
    tutti_json_count(json, "steps_broken_off", e->broken_off);
    tutti_json_number(json, "broken_off_s", seconds(e->broken_ps));
    tutti_json_count(json, "steps_made_again", e->repeated);
    tutti_json_count(json, "groups", e->groups);
    tutti_json_number(json, "rendezvous_s", seconds(e->rendezvous_ps));
    tutti_json_number(json, "broadcast_s", seconds(e->broadcast_ps));
    tutti_json_number(json, "too_few_s", seconds(e->waiting_ps));
    tutti_json_count(json, "checkpoints", e->checkpoints);
    tutti_json_close(json);
}
