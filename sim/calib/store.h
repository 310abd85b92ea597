/* A calibration in memory: its values in the order of parameters, and its sources. */
#ifndef TUTTI_SIM_CALIB_STORE_H
#define TUTTI_SIM_CALIB_STORE_H

#include "sim/calib.h"
#include "sim/calib/classes.h"

struct tutti_calib_entry {
    struct tutti_calib_key key;
    struct tutti_calib_value value;
};

struct tutti_calib_origin { /* a source */
    char word[TUTTI_CALIB_SOURCE_BYTES];
    char *text;
};

struct tutti_calib {
    char *title; /* NULL: none */
    struct tutti_calib_entry *entries;
    uint32_t entry_count;
    uint32_t entry_capacity;
    struct tutti_calib_origin *origins; /* as they were set */
    uint32_t origin_count;
    uint32_t origin_capacity;
};

/* The value of a key, or NULL. */
const struct tutti_calib_value *tutti_calib_find(const struct tutti_calib *calib,
                                                 struct tutti_calib_key key);

#endif
