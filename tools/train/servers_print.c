/* Prints what `tutti train` says of parameter servers; see servers.h. */
#include <inttypes.h>
#include <math.h>

#include "tools/cli/output.h"
#include "tools/train/servers.h"

enum { BINS_SHOWN = 10 };

/* "0.4 %", in the digits of all numbers. */
static void print_percent(double part, const char *before, FILE *out)
{
    char number[TUTTI_NUMBER_TEXT_BYTES];

    fprintf(out, "%s%s %%", before, tutti_number_text(100 * part, number));
}

static double dropped_part(const struct tutti_train_servers_answer *a)
{
    double all = (double)(a->applied + a->dropped);

    return all > 0 ? (double)a->dropped / all : 0;
}

/* Gradients by their age: of each the part of all. */
static void print_staleness(const struct tutti_coordinator_stats *s, FILE *out)
{
    uint64_t shown = 0;

    if (s->staleness_max == 0 || s->applied == 0)
        return;
    fprintf(out, "# stale by: ");
    for (uint32_t i = 0; i < TUTTI_STALENESS_BINS && i <= s->staleness_max; i++) {
        uint64_t rest = s->applied - shown;

        if (i + 1 < s->staleness_max && i + 1 >= BINS_SHOWN) {
            fprintf(out, ", %u to %" PRIu64, i, s->staleness_max);
            print_percent((double)rest / (double)s->applied, " ", out);
            break;
        }
        shown += s->staleness[i];
        fprintf(out, "%s%u", i > 0 ? ", " : "", i);
        print_percent((double)s->staleness[i] / (double)s->applied, " ", out);
    }
    fprintf(out, " of the gradients\n");
}

/* Where workers' time goes; servers' beside it. */
static void print_waits(const struct tutti_served *s, FILE *out)
{
    fprintf(out, "# workers: ");
    print_percent(s->computing, " compute ", out);
    print_percent(s->pulling, ", pull ", out);
    print_percent(s->pushing, ", push ", out);
    print_percent(s->queued, ", wait for servers to take gradients ", out);
    print_percent(s->idle, ", for others ", out);
    if (s->away > 0)
        print_percent(s->away, ", lost ", out);
    fprintf(out, "\n");
}

static void print_training(const struct tutti_train_servers_question *q,
                           const struct tutti_train_servers_answer *a, FILE *out)
{
    const struct tutti_served *s = &a->served;
    char number[TUTTI_NUMBER_TEXT_BYTES];

    if (!q->ask.supervised && q->losses.text == NULL)
        return;
    fprintf(out, "# training: %" PRIu64 " global steps in %s s, ", s->steps,
            tutti_number_text((double)s->total_ps / 1e12, number));
    fprintf(out, "%" PRIu64 " loss%s", s->failures, s->failures == 1 ? "" : "es");
    if (q->losses.text != NULL)
        fprintf(out, " (%s)", q->losses.text);
    if (q->ask.supervised) {
        fprintf(out, ", set up %" PRIu64 " time%s, ", s->stats.restored,
                s->stats.restored == 1 ? "" : "s");
        fprintf(out, "%" PRIu64 " step%s made again, ", s->repeated_steps,
                s->repeated_steps == 1 ? "" : "s");
        fprintf(out, "%" PRIu64 " checkpoint%s, ", s->checkpoints, s->checkpoints == 1 ? "" : "s");
        fprintf(out, "%s s in which nobody trained",
                tutti_number_text((double)s->standing_ps / 1e12, number));
    }
    fputc('\n', out);
}

void tutti_train_servers_print(const struct tutti_train_servers_question *q,
                               const struct tutti_train_servers_answer *a, FILE *out)
{
    char card[64];
    char number[TUTTI_NUMBER_TEXT_BYTES];
    uint32_t r = q->ask.aggregate > 0 ? q->ask.aggregate : a->worker_count;

    fprintf(out, "# servers:  %u worker%s of %u device%s, %u server%s, %u host%s", a->worker_count,
            a->worker_count == 1 ? "" : "s", a->worker_devices, a->worker_devices == 1 ? "" : "s",
            a->server_count, a->server_count == 1 ? "" : "s", a->host_count,
            a->host_count == 1 ? "" : "s");
    if (a->host_count > 1)
        fprintf(out, " with a card of %s", tutti_print_rate(a->card_bytes_per_s, card));
    fprintf(out, "; server %u keeps most, %.0f %% of", a->fullest_server,
            a->bytes > 0 ? 100 * (double)a->fullest_bytes / (double)a->bytes : 0);
    fprintf(out, " %s MB\n", tutti_number_text((double)a->bytes / 1e6, number));
    if (q->ask.synchronous)
        fprintf(out,
                "# steps:    %s/s, of %u gradients from %u workers, %.1f %% of all too late for "
                "one",
                tutti_number_text(a->updates_per_s, number), r, a->worker_count,
                100 * dropped_part(a));
    else
        fprintf(out, "# steps:    one of each worker, asynchronous: %s gradients/s",
                tutti_number_text(a->gradients_per_s, number));
    if (!q->ask.synchronous)
        fprintf(out, ", of weights %s updates old", tutti_number_text(a->staleness, number));
    if (!q->ask.synchronous && a->dropped > 0)
        fprintf(out, ", %.1f %% left aside", 100 * dropped_part(a));
    fputc('\n', out);
    print_staleness(&a->served.stats, out);
    print_waits(&a->served, out);
    print_training(q, a, out);
}

/* Percents of the workers' time, counts of gradients by age, and what losses have cost. */
static void json_served(const struct tutti_train_servers_question *q,
                        const struct tutti_train_servers_answer *a, struct tutti_json *json)
{
    const struct tutti_served *s = &a->served;

    tutti_json_number(json, "global_steps_per_s", a->updates_per_s);
    tutti_json_number(json, "busiest_server_percent", 100 * s->busiest_server);
    tutti_json_open(json, "workers_percent", '{');
    tutti_json_number(json, "compute", 100 * s->computing);
    tutti_json_number(json, "pull", 100 * s->pulling);
    tutti_json_number(json, "push", 100 * s->pushing);
    tutti_json_number(json, "servers", 100 * s->queued);
    tutti_json_number(json, "others", 100 * s->idle);
    tutti_json_number(json, "lost", 100 * s->away);
    tutti_json_close(json);
    tutti_json_count(json, "max_staleness", s->stats.staleness_max);
    tutti_json_open(json, "staleness", '[');
    for (uint32_t i = 0; i < TUTTI_STALENESS_BINS && i <= s->stats.staleness_max; i++)
        tutti_json_count(json, NULL, s->stats.staleness[i]);
    tutti_json_close(json);
    if (!q->ask.supervised && q->losses.text == NULL)
        return;
    tutti_json_open(json, "training", '{');
    tutti_json_count(json, "global_steps", s->steps);
    tutti_json_number(json, "total_s", (double)s->total_ps / 1e12);
    tutti_json_count(json, "losses", s->failures);
    tutti_json_count(json, "set_up", s->stats.restored);
    tutti_json_count(json, "steps_made_again", s->repeated_steps);
    tutti_json_count(json, "checkpoints", s->checkpoints);
    tutti_json_number(json, "standing_s", (double)s->standing_ps / 1e12);
    tutti_json_close(json);
}

void tutti_train_servers_json(const struct tutti_train_servers_question *q,
                              const struct tutti_train_servers_answer *a, struct tutti_json *json)
{
    tutti_json_open(json, "servers", '{');
    tutti_json_count(json, "workers", a->worker_count);
    tutti_json_count(json, "devices_per_worker", a->worker_devices);
    tutti_json_count(json, "servers", a->server_count);
    tutti_json_count(json, "hosts", a->host_count);
    tutti_json_bool(json, "synchronous", q->ask.synchronous);
    tutti_json_number(json, "card_GBps",
                      a->card_bytes_per_s > 0 ? (double)a->card_bytes_per_s / 1e9 : NAN);
    tutti_json_count(json, "moved_bytes", a->bytes);
    tutti_json_count(json, "fullest_server", a->fullest_server);
    tutti_json_count(json, "fullest_server_bytes", a->fullest_bytes);
    tutti_json_count(json, "busiest_host", a->busiest_host);
    tutti_json_number(json, "busiest_card_percent", 100 * a->busiest_card);
    tutti_json_number(json, "gradients_per_s", a->gradients_per_s);
    tutti_json_number(json, "mean_staleness", a->staleness);
    tutti_json_number(json, "dropped_percent", 100 * dropped_part(a));
    json_served(q, a, json);
    tutti_json_close(json);
}
