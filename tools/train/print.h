/* What `tutti train` prints of simulated steps: a page, JSON or CSV, and curves over devices. */
#ifndef TUTTI_TOOLS_TRAIN_PRINT_H
#define TUTTI_TOOLS_TRAIN_PRINT_H

#include "tools/options.h"
#include "tools/train/ask.h"
#include "tools/train/found.h"

int tutti_train_print(const struct tutti_args *args, const struct tutti_train_question *q,
                      const struct tutti_train_found_all *all, struct tutti_sink *sink,
                      struct tutti_err *err);

/* Where --curve asks for it. */
int tutti_train_print_curve(const struct tutti_args *args, const struct tutti_train_question *q,
                            const struct tutti_train_found_all *all, struct tutti_sink *sink,
                            struct tutti_err *err);

/* Steps of the whole training, of which each has so many samples; 0: not asked. */
uint64_t tutti_train_steps(const struct tutti_train_question *question, uint64_t samples);
/* What they cost on so many devices of a name; of no steps nothing. */
struct tutti_cost tutti_train_cost(const struct tutti_train_question *question,
                                   const char *accelerator, uint32_t device_count, tutti_ps step_ps,
                                   uint64_t steps);
/* What is of a device, as members of an open object: "stage", "GB", "capacity_GB", "terms". */
void tutti_train_footprint_json(const struct tutti_footprint *footprint, struct tutti_json *json);
/* Of what prices; nothing where none were asked. */
void tutti_train_print_prices(const struct tutti_train_question *question, FILE *out);

#endif
