/* How far steps may well be from what is predicted: what measured ones were, class by class, as
 * `tutti-fit residuals` writes it (traces/measured/training/residuals.txt, compiled in). */
#ifndef TUTTI_TOOLS_TRAIN_INTERVAL_H
#define TUTTI_TOOLS_TRAIN_INTERVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_err;

enum { TUTTI_INTERVAL_NAME_BYTES = 24 };

/* Rows alike: "FRAMEWORK PRECISION HOSTS ANCHOR ROWS FAMILIES P10 P90 [fitted] [divided]", as
 * "tensorflow half one anchored 139 3 0.93 1.11"; "any" stands for all frameworks, or both
 * precisions. */
struct tutti_interval {
    char framework[TUTTI_INTERVAL_NAME_BYTES];
    char precision[TUTTI_INTERVAL_NAME_BYTES]; /* "full": 32 bits, "half": fewer */
    bool several_hosts;
    bool anchored; /* a measured step of the series scaled the device */
    uint32_t row_count;
    uint32_t family_count; /* tables that they are of */
    double low;            /* measured / predicted: a tenth of the rows is below, */
    double high;           /* a tenth above */
    bool fitted;           /* constants were fitted to these rows themselves */
    bool divided;          /* of models with model parallelism */
};

enum { TUTTI_INTERVALS_MAX = 256 };

/* Reads such lines; what begins with '#' is a remark. -TUTTI_EINVAL names the line. */
int tutti_interval_parse(const char *name, const char *text, size_t bytes,
                         struct tutti_interval ret[TUTTI_INTERVALS_MAX], size_t *ret_count,
                         struct tutti_err *err);

/* That of a class, or of the next wider one that has rows: of both precisions, then, where no model
 * is divided, of the framework's divided ones (Megatron-LM was hardly measured otherwise), then of
 * all frameworks. False: there is none. */
bool tutti_interval_find(const struct tutti_interval *intervals, size_t count,
                         const struct tutti_interval *wanted, struct tutti_interval *ret);

/* What is compiled in. */
extern const struct tutti_interval_text {
    const char *text;
    size_t bytes;
} tutti_interval_text;

#endif
