/* Says what was measured on this machine; see calibrate.h. */
#include <inttypes.h>
#include <math.h>

#include "runtime/units.h"
#include "tools/calibrate.h"
#include "tools/json.h"

static const char *const titles[TUTTI_PASS_COUNT] = {
    [TUTTI_PASS_COPY] = "copy",
    [TUTTI_PASS_REDUCE] = "reduce",
    [TUTTI_PASS_SINGLE] = "message",
    [TUTTI_PASS_TAKE] = "message",
    [TUTTI_PASS_TAKE_INPUT] = "of input",
    [TUTTI_PASS_REDUCE_FRESH] = "reduced",
    [TUTTI_PASS_REDUCE_INPUT] = "of input",
    [TUTTI_PASS_PUSH] = "pushed",
};

static const char *const keys[TUTTI_PASS_COUNT] = {
    [TUTTI_PASS_COPY] = "copy_GBps",
    [TUTTI_PASS_REDUCE] = "reduce_GBps",
    [TUTTI_PASS_SINGLE] = "message_alone_GBps",
    [TUTTI_PASS_TAKE] = "message_fresh_GBps",
    [TUTTI_PASS_TAKE_INPUT] = "message_input_GBps",
    [TUTTI_PASS_REDUCE_FRESH] = "reduce_fresh_GBps",
    [TUTTI_PASS_REDUCE_INPUT] = "reduce_input_GBps",
    [TUTTI_PASS_PUSH] = "push_GBps",
};

static double gigabytes(uint64_t bytes_per_s)
{
    return (double)bytes_per_s / 1e9;
}

static double microseconds(int64_t ps)
{
    return (double)ps / (double)TUTTI_PS_PER_US;
}

void tutti_host_print(const struct tutti_host *host, FILE *out)
{
    char size[TUTTI_UNIT_TEXT_BYTES];
    int count = host->rank_count > 1 ? TUTTI_PASS_COUNT : TUTTI_PASS_REDUCE + 1;

    fprintf(out, "# measured first: to begin and end takes %.2f us", microseconds(host->launch_ps));
    if (host->rank_count > 1)
        fprintf(out, ", to hand a message on %.2f us", microseconds(host->latency_ps));
    fputc('\n', out);
    fprintf(out, "#   GB/s of a rank: ");
    for (int k = 0; k < count; k++)
        fprintf(out, "%s%10s", k == TUTTI_PASS_TAKE ? " |" : "", titles[k]);
    if (host->rank_count > 1)
        fprintf(out, "   (behind the bar %" PRIu32 " ranks at once)", host->pair_ranks);
    fputc('\n', out);
    for (uint32_t i = 0; i < host->point_count; i++) {
        const struct tutti_host_point *point = &host->points[i];

        fprintf(out, "#   %15s ", tutti_print_size(point->bytes, size));
        for (int k = 0; k < count; k++)
            fprintf(out, "%s%10.1f", k == TUTTI_PASS_TAKE ? " |" : "",
                    gigabytes(point->bytes_per_s[k]));
        fputc('\n', out);
    }
    fprintf(out, "# predicted: the same schedule simulated on a machine of these rates; no "
                 "collective was measured for it\n");
}

void tutti_host_json(const struct tutti_host *host, struct tutti_json *json)
{
    tutti_json_open(json, "measured", '{');
    tutti_json_count(json, "pair_ranks", host->pair_ranks);
    tutti_json_number(json, "launch_us", microseconds(host->launch_ps));
    tutti_json_number(json, "latency_us", microseconds(host->latency_ps));
    tutti_json_open(json, "points", '[');
    for (uint32_t i = 0; i < host->point_count; i++) {
        const struct tutti_host_point *point = &host->points[i];

        tutti_json_open(json, NULL, '{');
        tutti_json_count(json, "bytes", point->bytes);
        for (int k = 0; k < TUTTI_PASS_COUNT; k++)
            tutti_json_number(json, keys[k],
                              point->bytes_per_s[k] > 0 ? gigabytes(point->bytes_per_s[k]) : NAN);
        tutti_json_close(json);
    }
    tutti_json_close(json);
    tutti_json_close(json);
}
