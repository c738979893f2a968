/*
 * Takes arrays of any type and rank by the descriptors in which Fortran passes them to C. It is compiled with the
 * header of the Fortran compiler; some compilers cannot do this in Fortran.
 */
#include <ISO_Fortran_binding.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The library's. */
int VELOC_Fortran_protect(int id, void *address, int64_t count, int64_t size, const char *name);
int VELOC_Fortran_adjoint_protect(int what, int id, void *address, int64_t count, int64_t size);
int VELOC_Fortran_refuse(const char *call, const char *reason);
int VELOC_Fortran_refuse_number(const char *what, int64_t number);

void veloc_fortran_protect_array(const int *id, const CFI_cdesc_t *array, int *err);
void veloc_fortran_protect_own_array(const int *id, const CFI_cdesc_t *array,
                                     const CFI_cdesc_t *name, int *err);
void veloc_fortran_protect_part(const int *what, const int *id, const CFI_cdesc_t *array, int *err);
/* For default integers of 64 bits. */
void veloc_fortran_protect_array_long(const int64_t *id, const CFI_cdesc_t *array, int64_t *err);
void veloc_fortran_protect_own_array_long(const int64_t *id, const CFI_cdesc_t *array,
                                          const CFI_cdesc_t *name, int64_t *err);
void veloc_fortran_protect_part_long(const int64_t *what, const int64_t *id,
                                     const CFI_cdesc_t *array, int64_t *err);

/* Room for a name and for a reason. The library refuses a longer name for its length. */
enum { NAME = 1024, REASON = 256 };

/*
 * Counts the elements, if they lie side by side: no gap in any dimension that has more than one.
 * Otherwise gives the reason why the array is no range of memory.
 */
static const char *range(const CFI_cdesc_t *array, int64_t *count)
{
    int64_t stride = (int64_t)array->elem_len;
    int dimension;
    *count = 1;
    for (dimension = 0; dimension < array->rank; dimension++) {
        const CFI_dim_t *along = &array->dim[dimension];
        if (along->extent < 0)
            return "an array with an assumed size (*) does not say where it ends; protect a section "
                   "up to its end";
        if (along->extent > 1 && along->sm != stride)
            return "a section of an array with gaps between its elements is no range of memory; "
                   "protect the whole array that it is a part of";
        stride *= along->extent;
        *count *= along->extent;
    }
    return NULL;
}

static int refuse(const char *call, int id, const char *why)
{
    char reason[REASON];
    snprintf(reason, sizeof reason, "region %d: %s", id, why);
    return VELOC_Fortran_refuse(call, reason);
}

static int protect(int64_t long_id, const CFI_cdesc_t *array, const char *name)
{
    int id = (int)long_id;
    int64_t count;
    const char *why;
    if (id != long_id)
        return VELOC_Fortran_refuse_number("id", long_id);
    why = range(array, &count);
    if (why)
        return refuse(name[0] ? "VELOC_Region_protect" : "VELOC_Mem_protect", id, why);
    return VELOC_Fortran_protect(id, array->base_addr, count, (int64_t)array->elem_len, name);
}

static int protect_part(int64_t long_what, int64_t long_id, const CFI_cdesc_t *array)
{
    int what = (int)long_what, id = (int)long_id;
    int64_t count;
    const char *why;
    if (what != long_what)
        return VELOC_Fortran_refuse_number("what", long_what);
    if (id != long_id)
        return VELOC_Fortran_refuse_number("id", long_id);
    why = range(array, &count);
    if (why)
        return refuse("VELOC_Adjoint_protect", id, why);
    return VELOC_Fortran_adjoint_protect(what, id, array->base_addr, count,
                                         (int64_t)array->elem_len);
}

static int protect_own(int64_t id, const CFI_cdesc_t *array, const CFI_cdesc_t *name)
{
    const char *letters = name->base_addr;
    size_t length = name->elem_len;
    char text[NAME + 1];
    while (length > 0 && letters[length - 1] == ' ')
        length--;
    if (length > NAME)
        length = NAME;
    memcpy(text, letters, length);
    text[length] = '\0';
    /* No letters would mean the regions of any checkpoint. */
    return protect(id, array, length == 0 ? " " : text);
}

void veloc_fortran_protect_array(const int *id, const CFI_cdesc_t *array, int *err)
{
    *err = protect(*id, array, "");
}

void veloc_fortran_protect_array_long(const int64_t *id, const CFI_cdesc_t *array, int64_t *err)
{
    *err = protect(*id, array, "");
}

void veloc_fortran_protect_own_array(const int *id, const CFI_cdesc_t *array,
                                     const CFI_cdesc_t *name, int *err)
{
    *err = protect_own(*id, array, name);
}

void veloc_fortran_protect_own_array_long(const int64_t *id, const CFI_cdesc_t *array,
                                          const CFI_cdesc_t *name, int64_t *err)
{
    *err = protect_own(*id, array, name);
}

void veloc_fortran_protect_part(const int *what, const int *id, const CFI_cdesc_t *array, int *err)
{
    *err = protect_part(*what, *id, array);
}

void veloc_fortran_protect_part_long(const int64_t *what, const int64_t *id,
                                     const CFI_cdesc_t *array, int64_t *err)
{
    *err = protect_part(*what, *id, array);
}
