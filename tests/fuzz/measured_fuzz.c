/* Fuzzes tables of measurements and their filters: what is taken is whole, a refusal says why. */
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"
#include "traces/measured.h"

static void judge_table(const struct tutti_measured_table *table)
{
    JUDGE(table->id[0] != '\0' && table->site[0] != '\0' && table->machine[0] != '\0');
    JUDGE(table->version != NULL && table->note != NULL);
    JUDGE((uint64_t)table->host_count * table->gpu_count == table->rank_count);
    JUDGE(table->rank_count > 0 && table->row_count > 0 && table->collective < TUTTI_CUSTOM);
    for (size_t i = 0; i < table->row_count; i++) {
        JUDGE(table->rows[i].bytes > (i > 0 ? table->rows[i - 1].bytes : 0));
        JUDGE(table->rows[i].out_us > 0 || table->rows[i].in_us > 0);
        JUDGE(!isinf(table->rows[i].out_us) && !isinf(table->rows[i].in_us));
    }
}

static void judge_set(const struct tutti_measured *set)
{
    struct tutti_measured_filter filter;

    for (size_t i = 0; i < set->table_count; i++) {
        judge_table(&set->tables[i]);
        JUDGE(tutti_measured_filter_parse("quality=good|degraded,ranks=1..,id=?*", &filter, NULL) ==
              0);
        JUDGE(tutti_measured_matches(&filter, &set->tables[i]));
    }
}

/* The first line as a filter, and the same text as a table. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_measured set = {0};
    struct tutti_measured_filter filter = {0};
    struct tutti_err err = {""};
    char *text = malloc(bytes + 1);
    int status;

    JUDGE(text != NULL);
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    status = tutti_measured_parse("fuzz", text, bytes, &set, &err);
    if (status < 0) {
        judge_refusal(status, &err);
        JUDGE(set.table_count == 0);
    }
    judge_set(&set);
    text[strcspn(text, "\n")] = '\0';
    status = tutti_measured_filter_parse(text, &filter, &err);
    if (status < 0)
        judge_refusal(status, &err);
    for (size_t i = 0; status == 0 && i < set.table_count; i++)
        (void)tutti_measured_matches(&filter, &set.tables[i]);
    tutti_measured_free(&set);
    free(text);
    return 0;
}
