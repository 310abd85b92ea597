/* Model A as a forecaster; see accuracy_nccl.h. */
#include "tools/fit/accuracy/accuracy_nccl.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "runtime/status.h"
#include "runtime/units.h"
#include "sim/nccl.h"

static void choose_all(const struct tutti_nccl_comm *comm, struct tutti_accuracy_table *table)
{
    const struct tutti_measured_table *measured = table->measured;

    for (size_t i = 0; i < table->row_count; i++) {
        struct tutti_accuracy_row *row = &table->rows[i];
        struct tutti_nccl_choice choice;

        if (tutti_nccl_choose(comm, measured->collective, measured->dtype, measured->op, row->bytes,
                              &choice, NULL) < 0 ||
            !(choice.time_us > 0))
            continue;
        row->us[TUTTI_FORECAST_MODEL_A] = choice.time_us;
        row->pick_algorithm =
            tutti_nccl_algorithm_name((enum tutti_nccl_algorithm)choice.algorithm);
        row->pick_protocol = tutti_nccl_protocol_name((enum tutti_nccl_protocol)choice.protocol);
    }
}

int tutti_model_a_forecast(const struct tutti_topo *topo, const struct tutti_nccl_env *env,
                           const struct tutti_nccl_version *version,
                           struct tutti_accuracy_table *table, struct tutti_err *err)
{
    const struct tutti_measured_table *measured = table->measured;
    struct tutti_nccl_comm_params params = {
        .hardware = topo->hardware, .version = version, .env = env};
    struct tutti_nccl_comm *comm = NULL;
    int status;

    if (topo->hardware == NULL ||
        (strcmp(measured->library, "nccl") != 0 && strcmp(measured->library, "rccl") != 0))
        return 0;
    params.host_count = tutti_topo_hardware_hosts(topo);
    status = tutti_nccl_comm_new(&params, &comm, err);
    if (status == 0)
        choose_all(comm, table);
    tutti_nccl_comm_free(comm);
    return status == -TUTTI_ENOMEM ? status : 0;
}

/* ---- what was run ---------------------------------------------------------------------------- */

enum { WORD_BYTES = 128 };

/* Copies the part of `text` up to one of `ends`; false: it does not fit. Moves on behind it. */
static bool take_word(const char **text, const char *ends, char *word)
{
    size_t bytes = strcspn(*text, ends);

    if (bytes >= WORD_BYTES)
        return false;
    memcpy(word, *text, bytes);
    word[bytes] = '\0';
    *text += bytes + ((*text)[bytes] != '\0');
    return true;
}

/* "0-1M", "2M-", "-4G", "64M": is the size in it? -1: no range. */
static int in_range(const char *text, uint64_t bytes)
{
    const char *rest = text;
    char word[WORD_BYTES];
    uint64_t first = 0;
    uint64_t last = UINT64_MAX;

    if (strchr(text, '-') == NULL)
        return tutti_read_size(text, &first, NULL) < 0 ? -1 : bytes == first;
    if (!take_word(&rest, "-", word))
        return -1;
    if (word[0] != '\0' && tutti_read_size(word, &first, NULL) < 0)
        return -1;
    if (rest[0] != '\0' && tutti_read_size(rest, &last, NULL) < 0)
        return -1;
    return bytes >= first && bytes <= last;
}

int tutti_ran_agrees(const char *ran, uint64_t bytes, const char *algorithm, const char *protocol)
{
    char item[WORD_BYTES];

    while (*ran != '\0' && take_word(&ran, ",", item)) {
        char *range = strchr(item, '@');
        char *slash;
        int inside = 1;

        if (range != NULL) {
            *range = '\0';
            inside = in_range(range + 1, bytes);
        }
        if (inside != 1)
            continue;
        slash = strchr(item, '/');
        if (slash != NULL)
            *slash = '\0';
        return strcasecmp(item, algorithm) == 0 &&
               (slash == NULL || strcasecmp(slash + 1, protocol) == 0);
    }
    return -1;
}
