/* Says what was measured on this machine; see calibrate.h. */
#include <inttypes.h>

#include "runtime/units.h"
#include "tools/calibrate.h"
#include "tools/json.h"

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

    fprintf(out, "# measured first: to begin and end takes %.2f us", microseconds(host->launch_ps));
    if (host->rank_count > 1)
        fprintf(out, ", to hand a message on %.2f us", microseconds(host->latency_ps));
    fputc('\n', out);
    for (uint32_t i = 0; i < host->point_count; i++) {
        const struct tutti_host_point *point = &host->points[i];

        fprintf(out, "#   %8s: copy %.1f GB/s", tutti_print_size(point->bytes, size),
                gigabytes(point->copy_bytes_per_s));
        if (host->rank_count > 1)
            fprintf(out,
                    ", message %.1f GB/s; %" PRIu32
                    " ranks at once: message %.1f, receive and reduce %.1f GB/s each",
                    gigabytes(point->single_bytes_per_s), host->pair_ranks,
                    gigabytes(point->pair_bytes_per_s), gigabytes(point->reduce_bytes_per_s));
        fputc('\n', out);
    }
    fprintf(out, "# predicted: the same schedule simulated on a machine of these rates, none of "
                 "them of a collective\n");
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
        tutti_json_number(json, "copy_GBps", gigabytes(point->copy_bytes_per_s));
        tutti_json_number(json, "message_GBps", gigabytes(point->single_bytes_per_s));
        tutti_json_number(json, "message_pairs_GBps", gigabytes(point->pair_bytes_per_s));
        tutti_json_number(json, "reduce_pairs_GBps", gigabytes(point->reduce_bytes_per_s));
        tutti_json_close(json);
    }
    tutti_json_close(json);
    tutti_json_close(json);
}
