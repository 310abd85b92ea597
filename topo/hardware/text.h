/* The hardware of a host in our text form of machines: statements that begin with "hardware". The
 * grammar stands in topo/file.c. */
#ifndef TUTTI_TOPO_HARDWARE_TEXT_H
#define TUTTI_TOPO_HARDWARE_TEXT_H

#include <stdio.h>

#include "topo/hardware/builder.h"

struct tutti_words;

/* Reads the words after "hardware" and adds what they say. */
int tutti_hw_read(struct tutti_words *words, struct tutti_hw_builder *builder,
                  struct tutti_err *err);

/* One line each. */
void tutti_hw_print(FILE *out, const struct tutti_hardware *hardware);

#endif
