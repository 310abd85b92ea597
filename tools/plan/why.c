/* Why the best plan is the best: its step beside the second's, part by part, and what would make
 * another win, as it was found by searching again. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/output.h"
#include "tools/plan/plan.h"

const char *const tutti_plan_part_words[TUTTI_PLAN_PARTS] = {"compute",
                                                             "the host",
                                                             "tensor collectives",
                                                             "context exchange",
                                                             "tokens to experts",
                                                             "messages between stages",
                                                             "bubble",
                                                             "gradients",
                                                             "weights gathered",
                                                             "the optimizer",
                                                             "input"};

const char *const tutti_plan_part_keys[TUTTI_PLAN_PARTS] = {
    "compute", "host",       "exposed_tp", "exposed_cp", "exposed_ep", "exposed_pp",
    "bubble",  "exposed_dp", "gather",     "optimizer",  "input"};

const char *const tutti_plan_turn_keys[TUTTI_PLAN_TURN_COUNT] = {"less_memory",    "more_memory",
                                                                 "slower_network", "faster_network",
                                                                 "smaller_batch",  "larger_batch"};

void tutti_plan_parts(const struct tutti_parallel_split *s, tutti_ps ret[TUTTI_PLAN_PARTS])
{
    const tutti_ps all[TUTTI_PLAN_PARTS] = {
        s->compute_ps, s->host_ps, s->tensor_ps, s->context_ps,   s->expert_ps, s->pipeline_ps,
        s->bubble_ps,  s->data_ps, s->gather_ps, s->optimizer_ps, s->input_ps};

    memcpy(ret, all, sizeof(all));
}

/* ---- against the second ---------------------------------------------------------------------- */

/* "0.21 s of bubble and 0.05 s of gradients": what one has beyond the other, the largest three. */
static void print_more(const tutti_ps more[TUTTI_PLAN_PARTS], tutti_ps worth_ps, FILE *out)
{
    static const char *const before[] = {" ", ", ", ", "};
    bool told[TUTTI_PLAN_PARTS] = {false};
    bool any = false;

    for (int i = 0; i < 3; i++) {
        int most = -1;

        for (int p = 0; p < TUTTI_PLAN_PARTS; p++)
            if (!told[p] && more[p] >= worth_ps && (most < 0 || more[p] > more[most]))
                most = p;
        if (most < 0)
            break;
        told[most] = true;
        any = true;
        fprintf(out, "%s%.3g s of %s", before[i], (double)more[most] / 1e12,
                tutti_plan_part_words[most]);
    }
    if (!any)
        fputs(" nothing", out);
}

/* What is less than a thousandth of the difference of the two is not told. */
static void print_against(const struct tutti_plan_found *a, const struct tutti_plan_found *b,
                          FILE *out)
{
    tutti_ps parts_a[TUTTI_PLAN_PARTS];
    tutti_ps parts_b[TUTTI_PLAN_PARTS];
    tutti_ps saved[TUTTI_PLAN_PARTS];
    tutti_ps paid[TUTTI_PLAN_PARTS];
    tutti_ps worth_ps = b->step_ps / 1000 + 1;

    tutti_plan_parts(&a->split, parts_a);
    tutti_plan_parts(&b->split, parts_b);
    for (int p = 0; p < TUTTI_PLAN_PARTS; p++) {
        saved[p] = parts_b[p] - parts_a[p];
        paid[p] = parts_a[p] - parts_b[p];
    }
    fputs("it saves", out);
    print_more(saved, worth_ps, out);
    fputs(" and pays", out);
    print_more(paid, worth_ps, out);
}

static double money(const struct tutti_plan_found *f)
{
    return f->cost.has_money ? (double)f->cost.money : (double)f->time_us * (double)f->device_count;
}

/* By what it wins, as the plans are ranked. */
static void print_margin(const struct tutti_plan_question *q, const struct tutti_plan_found *a,
                         const struct tutti_plan_found *b, FILE *out)
{
    double slower = ((double)b->step_ps / (double)a->step_ps - 1) * 100;
    double dearer = (money(b) / money(a) - 1) * 100;

    if (!(b->in_time && b->in_budget) && a->in_time && a->in_budget) {
        fprintf(out, ", which is not in %s", !b->in_time ? "time" : "budget");
    } else if (q->ask.goal == TUTTI_PLAN_TIME || a->device_count == b->device_count) {
        if (slower < 0.005)
            fputs(", which is as fast: the one that is simpler stands first", out);
        else
            fprintf(out, ", which takes %.3g %% longer", slower);
    } else if (q->ask.goal == TUTTI_PLAN_MONEY) {
        fprintf(out, ", which costs %.3g %% more", dearer);
    } else {
        fprintf(out, ", which takes %u devices", b->device_count);
    }
    if (a->device_count != b->device_count && q->ask.goal == TUTTI_PLAN_TIME)
        fprintf(out, " and costs %.3g %% %s", fabs(dearer), dearer < 0 ? "less" : "more");
}

static void print_second(const struct tutti_plan_question *q,
                         const struct tutti_plan_answer *answer, FILE *out)
{
    const struct tutti_plan_found *a = &answer->best[0];
    const struct tutti_plan_found *b = &answer->best[1];
    char first[TUTTI_PLAN_TEXT_BYTES];
    char second[TUTTI_PLAN_TEXT_BYTES];
    char place_a[160];
    char place_b[160];

    if (answer->best_count < 2) {
        if (q->ask.best_count > 1)
            fputs("# why:      no other division of the model fits\n", out);
        return;
    }
    fprintf(out, "# why:      %s%s before %s%s", tutti_plan_text(&a->plan, false, first),
            tutti_plan_place(q, a->plan.machine, place_a, sizeof(place_a)),
            tutti_plan_text(&b->plan, false, second),
            tutti_plan_place(q, b->plan.machine, place_b, sizeof(place_b)));
    print_margin(q, a, b, out);
    if (a->step_ps != b->step_ps) {
        fputs("; ", out);
        print_against(a, b, out);
        fputs(" a step", out);
    }
    fputc('\n', out);
}

/* The best of all other machines as they were named; NULL: none has any. */
static const struct tutti_plan_found *first_elsewhere(const struct tutti_plan_question *q,
                                                      const struct tutti_plan_answer *answer)
{
    uint32_t ours = q->machine_spec[answer->best[0].plan.machine];
    const struct tutti_plan_found *best = NULL;

    for (uint32_t i = 0; i < answer->each_count; i++)
        if (q->machine_spec[answer->each[i].plan.machine] != ours &&
            (best == NULL || tutti_plan_is_better(q->ask.goal, &answer->each[i], best)))
            best = &answer->each[i];
    return best;
}

/* By cost, the price at which another machine costs as much: costs go with prices. */
static void print_price(const struct tutti_plan_question *q, const struct tutti_plan_answer *answer,
                        FILE *out)
{
    const struct tutti_plan_found *best = &answer->best[0];
    const struct tutti_plan_found *other = first_elsewhere(q, answer);
    char text[TUTTI_PLAN_TEXT_BYTES];
    char place[160];

    if (!q->ends || q->ask.goal != TUTTI_PLAN_MONEY || other == NULL || !best->cost.has_money ||
        !other->cost.has_money || !other->in_time || !other->in_budget)
        return;
    fprintf(out, "# turns:    with devices %.3g %% cheaper there %s%s wins\n",
            100 * (1 - (double)best->cost.money / (double)other->cost.money),
            tutti_plan_text(&other->plan, false, text),
            tutti_plan_place(q, other->plan.machine, place, sizeof(place)));
}

/* ---- what would change it -------------------------------------------------------------------- */

static const char *condition(const struct tutti_plan_turn *turn, char *buf, size_t buf_bytes)
{
    double percent = fabs(turn->factor - 1) * 100;

    switch (turn->kind) {
    case TUTTI_PLAN_LESS_MEMORY:
        (void)snprintf(buf, buf_bytes, "with %.3g %% less memory a device", percent);
        break;
    case TUTTI_PLAN_MORE_MEMORY:
        (void)snprintf(buf, buf_bytes, "with %.3g %% more memory a device", percent);
        break;
    case TUTTI_PLAN_SLOWER_NETWORK:
        (void)snprintf(buf, buf_bytes, "with a network %.3g times slower", 1 / turn->factor);
        break;
    case TUTTI_PLAN_FASTER_NETWORK:
        (void)snprintf(buf, buf_bytes, "with a network %.3g times as fast", turn->factor);
        break;
    case TUTTI_PLAN_SMALLER_BATCH:
    case TUTTI_PLAN_LARGER_BATCH:
        (void)snprintf(buf, buf_bytes, "with %.3g times the batch", turn->factor);
        break;
    case TUTTI_PLAN_TURN_COUNT:
        break;
    }
    return buf;
}

const char *tutti_plan_turn_text(const struct tutti_plan_found *best,
                                 const struct tutti_plan_turn *turn, char *buf)
{
    char when[80];
    char plan[TUTTI_PLAN_TEXT_BYTES];
    int used;

    buf[0] = '\0';
    if (!turn->is_asked)
        return buf;
    (void)condition(turn, when, sizeof(when));
    if (!turn->turns) {
        (void)snprintf(buf, TUTTI_PLAN_TURN_BYTES, "%s it stays", when);
        return buf;
    }
    used = snprintf(buf, TUTTI_PLAN_TURN_BYTES, "%s %s wins", when,
                    tutti_plan_text(&turn->first.plan, true, plan));
    if (turn->kind <= TUTTI_PLAN_MORE_MEMORY)
        (void)snprintf(buf + used, TUTTI_PLAN_TURN_BYTES - (size_t)used, ", %.3g %% %s than now",
                       fabs((double)turn->first.step_ps / (double)best->step_ps - 1) * 100,
                       turn->first.step_ps < best->step_ps ? "faster" : "slower");
    else if (turn->best_ps > 0)
        (void)snprintf(buf + used, TUTTI_PLAN_TURN_BYTES - (size_t)used, " by %.3g %%",
                       ((double)turn->best_ps / (double)turn->first.step_ps - 1) * 100);
    return buf;
}

static void print_turns(const struct tutti_plan_question *q, const struct tutti_plan_result *result,
                        FILE *out)
{
    const struct tutti_plan_found *best = &result->answer.best[0];
    const char *before = "# stays:    first also ";
    char text[TUTTI_PLAN_TURN_BYTES];
    char when[80];
    bool stays = false;

    if (!q->turns)
        return;
    for (int i = 0; i < TUTTI_PLAN_TURN_COUNT; i++)
        if (result->turns[i].turns)
            fprintf(out, "# turns:    %s\n", tutti_plan_turn_text(best, &result->turns[i], text));
    for (int i = 0; i < TUTTI_PLAN_TURN_COUNT; i++) {
        if (!result->turns[i].is_asked || result->turns[i].turns)
            continue;
        fprintf(out, "%s%s", before, condition(&result->turns[i], when, sizeof(when)));
        before = ", ";
        stays = true;
    }
    if (stays)
        fputc('\n', out);
}

void tutti_plan_why(const struct tutti_plan_question *q, const struct tutti_plan_result *result,
                    FILE *out)
{
    const struct tutti_plan_found *best = &result->answer.best[0];

    print_second(q, &result->answer, out);
    print_price(q, &result->answer, out);
    print_turns(q, result, out);
    for (int i = 0; i < TUTTI_PLAN_CAUTION_COUNT; i++)
        if (best->cautions & 1u << i)
            fprintf(out, "# caution:  %s\n", tutti_plan_caution_text((enum tutti_plan_caution)i));
}
