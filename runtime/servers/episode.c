/* A worker's episode: the weights are pulled, a gradient is computed, and pushed; see trainer.h. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "runtime/servers/trainer.h"
#include "runtime/status.h"

static const tutti_ps LISTEN_PS = 2 * TUTTI_PS_PER_MS;

/* ---- the pace of another machine ------------------------------------------------------------- */

static void begin(const struct tutti_server_trainer *t, enum tutti_servers_doing doing)
{
    if (t->params.pacing != NULL)
        t->params.pacing->begin(t->params.pacing->context, doing);
}

/* Waits until what has begun is over there; orders of server 0 come in meanwhile. */
static int hold(struct tutti_server_trainer *t, const struct tutti_server_head *head,
                bool *ret_aborted, struct tutti_err *err)
{
    const struct tutti_servers_pacing *pacing = t->params.pacing;
    int status = 0;

    while (pacing != NULL && status == 0 && !*ret_aborted) {
        const tutti_ps left_ps = pacing->left(pacing->context);
        const struct timespec pause = {.tv_nsec = (long)(left_ps / 1000)};

        if (left_ps == 0)
            return 0;
        if (left_ps > LISTEN_PS) /* which is woken by the millisecond alone */
            status = tutti_trainer_listen(t, left_ps - LISTEN_PS, err);
        else
            (void)nanosleep(&pause, NULL);
        *ret_aborted = tutti_trainer_is_aborted(t, head);
    }
    if (pacing != NULL)
        pacing->stop(pacing->context);
    return status;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Asked of all servers, then taken from each. *ret_there false: of another generation by now. */
static int pull(struct tutti_server_trainer *t, const struct tutti_server_head *head,
                bool *ret_there, struct tutti_err *err)
{
    int status = 0;

    *ret_there = true;
    begin(t, TUTTI_SERVERS_PULLS);
    for (uint32_t s = 0; s < t->params.server_count && status == 0; s++)
        status = tutti_trainer_tell(t, s, TUTTI_MESSAGE_PULL, head, NULL, 0, NULL, 0, err);
    for (uint32_t s = t->params.server_count; s-- > 0 && status == 0;) {
        struct tutti_server_head got;
        const uint8_t *body = NULL;

        status =
            tutti_trainer_await(t, s, TUTTI_MESSAGE_WEIGHTS,
                                t->layout->server_elements[s] * sizeof(float), &got, &body, err);
        if (status == 0 && got.sequence > 0)
            tutti_server_scatter(t->layout, s, (const float *)(const void *)body, t->weights);
        else if (status == 0)
            *ret_there = false;
    }
    return status;
}

/* ---- computing ------------------------------------------------------------------------------- */

static int look(struct tutti_server_trainer *t, const struct tutti_server_head *head,
                bool *ret_aborted, struct tutti_err *err)
{
    int status = tutti_frames_ready(t->links[0]) ? tutti_trainer_listen(t, 0, err) : 0;

    *ret_aborted = tutti_trainer_is_aborted(t, head);
    return status;
}

static int run_layers(struct tutti_server_trainer *t, bool add,
                      const struct tutti_server_head *head, bool *ret_aborted,
                      struct tutti_err *err)
{
    const struct tutti_learner *learner = t->params.learner;
    const struct tutti_server_layout *l = t->layout;
    int status = 0;

    for (uint32_t i = 0; i < l->layer_count && status == 0; i++)
        status = learner->forward(t->replica, i, t->layer_weights + l->first_variable[i], err);
    for (uint32_t i = l->layer_count; i-- > 0 && status == 0 && !*ret_aborted;) {
        const uint32_t first = l->first_variable[i];

        status = learner->backward(t->replica, i, t->layer_weights + first,
                                   t->layer_gradients + first, add, err);
        if (status == 0)
            status = look(t, head, ret_aborted, err);
    }
    return status;
}

/* A batch of its own: all of its micro-batches. */
static int compute(struct tutti_server_trainer *t, const struct tutti_server_head *head,
                   struct tutti_server_report *report, bool *ret_aborted, struct tutti_err *err)
{
    const struct tutti_learner *learner = t->params.learner;
    const uint32_t parts = t->params.micro_batches > 0 ? t->params.micro_batches : 1;
    const double begun_s = tutti_server_now_s();
    int status = 0;

    *report = (struct tutti_server_report){.gradient_norm = 0};
    begin(t, TUTTI_SERVERS_COMPUTES);
    for (uint32_t m = 0; m < parts && status == 0 && !*ret_aborted; m++) {
        struct tutti_sums sums;

        status = learner->input(t->replica, t->local_step, m, 1, err);
        if (status == 0)
            status = run_layers(t, m > 0, head, ret_aborted, err);
        if (status < 0)
            break;
        sums = learner->sums(t->replica);
        report->sums.loss += sums.loss;
        report->sums.correct += sums.correct;
        report->sums.examples += sums.examples;
    }
    t->local_step++;
    if (status == 0 && !*ret_aborted)
        status = hold(t, head, ret_aborted, err);
    report->compute_s = tutti_server_now_s() - begun_s;
    return status;
}

static void clip(struct tutti_server_trainer *t, struct tutti_server_report *report)
{
    double squares = 0;
    double scale;

    for (uint64_t i = 0; i < t->layout->elements; i++)
        squares += (double)t->gradient[i] * (double)t->gradient[i];
    report->gradient_norm = sqrt(squares);
    scale = tutti_clip_scale(report->gradient_norm, t->params.clip_norm);
    for (uint64_t i = 0; i < t->layout->elements && scale < 1; i++)
        t->gradient[i] = (float)((double)t->gradient[i] * scale);
}

/* ---- the gradient ---------------------------------------------------------------------------- */

/* To the other servers, who say that they have it; then to server 0, which decides. */
static int push(struct tutti_server_trainer *t, const struct tutti_server_head *head,
                const struct tutti_server_report *report, struct tutti_err *err)
{
    bool aborted = false;
    uint8_t packed[TUTTI_SERVER_REPORT_BYTES];
    struct tutti_server_head got;
    const uint8_t *nothing;
    int status = 0;

    begin(t, TUTTI_SERVERS_PUSHES);
    for (uint32_t s = 1; s < t->params.server_count && status == 0; s++) {
        tutti_server_gather(t->layout, s, t->gradient, t->part);
        status = tutti_trainer_tell(t, s, TUTTI_MESSAGE_PUSH, head, t->part,
                                    t->layout->server_elements[s] * sizeof(float), NULL, 0, err);
    }
    for (uint32_t s = 1; s < t->params.server_count && status == 0; s++)
        status = tutti_trainer_await(t, s, TUTTI_MESSAGE_PUSHED, 0, &got, &nothing, err);
    if (status == 0)
        status = hold(t, head, &aborted, err);
    if (status < 0 || aborted)
        return status;
    tutti_server_gather(t->layout, 0, t->gradient, t->part);
    tutti_server_report_put(report, packed);
    return tutti_trainer_tell(t, 0, TUTTI_MESSAGE_DONE, head, packed, sizeof(packed), t->part,
                              t->layout->server_elements[0] * sizeof(float), err);
}

int tutti_trainer_episode(struct tutti_server_trainer *t, struct tutti_err *err)
{
    const struct tutti_server_head head = t->start.head;
    struct tutti_server_report report;
    bool is_there = true;
    bool aborted = false;
    int status;

    t->start.is_there = false;
    status = pull(t, &head, &is_there, err);
    if (status == 0 && is_there)
        status = hold(t, &head, &aborted, err);
    if (status == 0 && is_there && !aborted)
        status = compute(t, &head, &report, &aborted, err);
    if (status < 0 || !is_there || aborted)
        return status;
    clip(t, &report);
    return push(t, &head, &report, err);
}
