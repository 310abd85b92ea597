/* What goodput is printed as; see goodput.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/cli/output.h"
#include "tools/goodput/goodput.h"

enum { TEXT_BYTES = 48 };

/* "3.15 min" */
static const char *time_text(double s, char buf[TEXT_BYTES])
{
    char number[TUTTI_NUMBER_TEXT_BYTES];
    const char *unit = "s";

    if (s >= 2 * 86400) {
        s /= 86400;
        unit = "days";
    } else if (s >= 2 * 3600) {
        s /= 3600;
        unit = "h";
    } else if (s >= 120) {
        s /= 60;
        unit = "min";
    }
    (void)snprintf(buf, TEXT_BYTES, "%s %s", tutti_number_text(s, number), unit);
    return buf;
}

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

static void print_goodput(const struct tutti_goodput_question *q,
                          const struct tutti_goodput_answer *a, FILE *out)
{
    char text[TEXT_BYTES];

    fprintf(out, "# goodput:  %.2f %% of %s is training that counts", 100 * a->expected.goodput,
            time_text(a->expected.total_s, text));
    if (a->runs == 0)
        fputs(" (expected; of too many checkpoints to be played)\n", out);
    else
        fprintf(out, " (p10 %.2f, p50 %.2f, p90 %.2f of %u runs, seeds from %" PRIu64 ")\n",
                100 * a->goodput[0], 100 * a->goodput[1], 100 * a->goodput[2], a->runs, q->seed);
}

static void print_failures(const struct tutti_goodput_question *q,
                           const struct tutti_goodput_answer *a, FILE *out)
{
    char text[TEXT_BYTES];
    const char *before = ": ";

    fprintf(out, "# failures: %.1f interruptions expected", a->expected.interruptions);
    if (a->runs > 0)
        fprintf(out, " (p10 %.0f, p90 %.0f)", a->interruptions[0], a->interruptions[2]);
    fprintf(out, ", one each %s", time_text(a->expected.mtbf_s, text));
    for (uint32_t i = 0; i < a->run.cause_count; i++) {
        fprintf(out, "%s%s %.1f", before, a->causes[i].name, a->expected.by_cause[i]);
        before = ", ";
    }
    fprintf(out, "%s\n", q->llama3 ? "; as often a device as in Llama 3's 54 days" : "");
}

static void print_parts(const struct tutti_goodput_answer *a, FILE *out)
{
    const struct tutti_long_run_times *t = &a->expected;
    const char *before = "# lost:     ";
    char text[TEXT_BYTES];

    for (int i = TUTTI_RUN_USEFUL + 1; i < TUTTI_RUN_PART_COUNT; i++) {
        if (t->part_s[i] < 5e-5 * t->total_s) /* prints as 0 */
            continue;
        fprintf(out, "%s%s %.2f %% (%s)", before,
                tutti_long_run_part_name((enum tutti_long_run_part)i),
                100 * t->part_s[i] / t->total_s, time_text(t->part_s[i], text));
        before = ", ";
    }
    if (before[0] == '#')
        fprintf(out, "%snothing", before);
    fputc('\n', out);
}

static void print_saving(const struct tutti_goodput_answer *a, FILE *out)
{
    const struct tutti_long_run_times *t = &a->expected;
    const double steps = round((double)t->every_ps / (double)a->job.step_ps);
    char text[TEXT_BYTES], rate[TUTTI_UNIT_TEXT_BYTES];

    fprintf(out, "# saving:   %.4g GB", (double)a->job.state_bytes / 1e9);
    if (a->run.save_bytes_per_s > 0)
        fprintf(out, " at %s", tutti_print_rate(a->run.save_bytes_per_s, rate));
    if (a->save_assumed)
        fputs(" (assumed: 1 GB/s a host, as Llama 3's storage; --save-rate)", out);
    fprintf(out, ": training stands still for %s", time_text(seconds(t->stall_ps), text));
    if (a->copy_assumed)
        fprintf(out, ", copied to hosts at %s a device (assumed: PCIe 3; copy=)",
                tutti_print_rate(a->run.copy_bytes_per_s, rate));
    if (a->run.async)
        fprintf(out, ", written beside it in %s", time_text(seconds(t->write_ps), text));
    if (a->run.storage_every > 1)
        fprintf(out, ", one of %u", a->run.storage_every);
    fprintf(out, ", each %s", time_text(seconds(t->every_ps), text));
    fprintf(out, " (%.0f step%s), %.0f times\n", steps, steps > 1.5 ? "s" : "", t->checkpoints);
    fputs("# interval: ", out);
    for (uint32_t i = 0; i < a->tried_count; i++)
        fprintf(out, "%s%s %s: %.2f %%", i > 0 ? ", " : "", a->tried[i].what,
                time_text(seconds(a->tried[i].every_ps), text), 100 * a->tried[i].goodput);
    fputc('\n', out);
}

static void print_end(const struct tutti_goodput_question *q, const struct tutti_goodput_answer *a,
                      FILE *out)
{
    char number[TUTTI_NUMBER_TEXT_BYTES];
    const double ideal = (double)a->steps_done * seconds(a->job.step_ps) / 86400;

    if (a->job.steps > 0) {
        fprintf(out, "# to end:   %" PRIu64 " steps in %s days without interruptions; with them ",
                a->job.steps, tutti_number_text(a->run.work_s / 86400, number));
        if (a->runs == 0)
            fprintf(out, "%.4g days", a->expected.total_s / 86400);
        else
            fprintf(out, "p10 %.4g, p50 %.4g, p90 %.4g days", a->days[0], a->days[1], a->days[2]);
        if (q->days > 0 && a->runs > 0)
            fprintf(out, "; within %.4g days %u of %u runs", q->days, a->runs_within, a->runs);
    } else {
        fprintf(out, "# done:     %" PRIu64 " steps, as in %s days without interruptions",
                a->steps_done, tutti_number_text(ideal, number));
    }
    if (a->job.tokens > 0)
        fprintf(out, "; %.4g tokens",
                (double)a->job.tokens * (double)(a->job.steps > 0 ? a->job.steps : a->steps_done));
    if (a->cost.has_money) {
        const double lost = 1 - a->expected.goodput;

        fprintf(out, "; %s %s", tutti_number_text((double)a->cost.money / 1e6, number),
                tutti_prices_currency(a->job.prices));
        fprintf(out, ", of which %s for time that is lost",
                tutti_number_text((double)a->cost.money / 1e6 * lost, number));
    }
    fputc('\n', out);
}

static void print_helps(const struct tutti_goodput_answer *a, FILE *out)
{
    char text[TEXT_BYTES];

    fputs("# helps:    ", out);
    for (uint32_t i = 0; i < a->helps_count; i++)
        fprintf(out, "%s%s: %+.2f", i > 0 ? ", " : "", a->helps[i].what,
                100 * (a->helps[i].goodput - a->expected.goodput));
    if (a->restart_for_90 < 0)
        fputs(" points; no restart is quick enough for 90 %\n", out);
    else
        fprintf(out, " points; 90 %% needs restarts of at most %s\n",
                time_text(seconds(a->restart_for_90), text));
}

static void print_assumed(const struct tutti_goodput_question *q, FILE *out)
{
    char text[TEXT_BYTES];

    fprintf(out, "# restarts: %s", time_text(q->restart_s, text));
    if (!q->restart_said)
        fputs(" (assumed, with detection; --restart)", out);
    if (q->restart_device_s > 0)
        fprintf(out, " and %s a device", time_text(q->restart_device_s, text));
    if (q->detect_s > 0)
        fprintf(out, ", %s until a failure is known", time_text(q->detect_s, text));
    if (!q->spares_said) {
        fputs("; a host to replace a lost one is always there (--spares)", out);
        if (q->return_s > 0)
            fprintf(out, ", one that is preempted after %s", time_text(q->return_s, text));
        fputc('\n', out);
        return;
    }
    fprintf(out, "; %u spare host%s", q->spares, q->spares == 1 ? "" : "s");
    if (q->cold_spares > 0)
        fprintf(out, " and %u cold", q->cold_spares);
    fprintf(out, ", repaired in %s%s", time_text(q->repair_s, text),
            q->repair_said ? "" : " (assumed; --failures repair=)");
    if (q->least_devices > 0)
        fprintf(out, ", without one down to %u devices", q->least_devices);
    fputc('\n', out);
}

void tutti_goodput_print(const struct tutti_goodput_question *q,
                         const struct tutti_goodput_answer *a, FILE *out)
{
    if (!q->asked)
        return;
    print_goodput(q, a, out);
    print_failures(q, a, out);
    print_assumed(q, out);
    print_parts(a, out);
    print_saving(a, out);
    print_end(q, a, out);
    print_helps(a, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_percentiles(struct tutti_json *json, const char *key,
                             const struct tutti_goodput_answer *a, const double values[3],
                             double scale)
{
    static const char *const names[3] = {"p10", "p50", "p90"};

    tutti_json_open(json, key, '{');
    for (int i = 0; i < 3; i++)
        tutti_json_number(json, names[i], a->runs > 0 ? scale * values[i] : NAN);
    tutti_json_close(json);
}

static void json_lists(const struct tutti_goodput_answer *a, struct tutti_json *json)
{
    static const char *const parts[TUTTI_RUN_PART_COUNT] = {
        "useful", "checkpoints", "lost_work", "detection",
        "spares", "restart",     "waiting",   "fewer_replicas"};

    tutti_json_open(json, "interruptions_by_cause", '{');
    for (uint32_t i = 0; i < a->run.cause_count; i++)
        tutti_json_number(json, a->causes[i].name, a->expected.by_cause[i]);
    tutti_json_close(json);
    tutti_json_open(json, "time_s", '{');
    for (int i = 0; i < TUTTI_RUN_PART_COUNT; i++)
        tutti_json_number(json, parts[i], a->expected.part_s[i]);
    tutti_json_close(json);
    tutti_json_open(json, "intervals", '[');
    for (uint32_t i = 0; i < a->tried_count; i++) {
        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "what", a->tried[i].what);
        tutti_json_number(json, "every_s", seconds(a->tried[i].every_ps));
        tutti_json_number(json, "goodput_percent", 100 * a->tried[i].goodput);
        tutti_json_close(json);
    }
    tutti_json_close(json);
    tutti_json_open(json, "helps", '[');
    for (uint32_t i = 0; i < a->helps_count; i++) {
        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "what", a->helps[i].what);
        tutti_json_number(json, "goodput_percent", 100 * a->helps[i].goodput);
        tutti_json_close(json);
    }
    tutti_json_close(json);
}

void tutti_goodput_json(const struct tutti_goodput_question *q,
                        const struct tutti_goodput_answer *a, struct tutti_json *json)
{
    const struct tutti_long_run_times *t = &a->expected;

    if (!q->asked)
        return;
    tutti_json_open(json, "goodput", '{');
    tutti_json_number(json, "goodput_percent", 100 * t->goodput);
    json_percentiles(json, "goodput_percent_of_runs", a, a->goodput, 100);
    tutti_json_number(json, "days", t->total_s / 86400);
    json_percentiles(json, "days_of_runs", a, a->days, 1);
    tutti_json_count(json, "runs", a->runs);
    if (a->job.steps > 0 && q->days > 0)
        tutti_json_count(json, "runs_within_days", a->runs_within);
    tutti_json_count(json, "seed", q->seed);
    tutti_json_count(json, "steps", a->job.steps > 0 ? a->job.steps : a->steps_done);
    tutti_json_number(json, "interruptions", t->interruptions);
    tutti_json_number(json, "mtbf_s", t->mtbf_s);
    tutti_json_number(json, "restart_s", q->restart_s);
    tutti_json_count(json, "state_bytes", a->job.state_bytes);
    tutti_json_number(json, "save_GBps", (double)a->run.save_bytes_per_s / 1e9);
    tutti_json_bool(json, "save_rate_assumed", a->save_assumed);
    tutti_json_bool(json, "copy_rate_assumed", a->copy_assumed);
    tutti_json_number(json, "save_every_s", seconds(t->every_ps));
    tutti_json_number(json, "save_stall_s", seconds(t->stall_ps));
    tutti_json_number(json, "save_write_s", seconds(t->write_ps));
    tutti_json_number(json, "checkpoints", t->checkpoints);
    tutti_json_number(json, "restart_for_90_percent_s",
                      a->restart_for_90 < 0 ? NAN : seconds(a->restart_for_90));
    tutti_json_number(json, "cost", a->cost.has_money ? (double)a->cost.money / 1e6 : NAN);
    json_lists(a, json);
    tutti_json_close(json);
}
