/*
 * Arrays of any type and rank, by the descriptors in which Fortran hands them to C. Compiled with
 * the header of the Fortran compiler: some of these cannot do as much in Fortran.
 */
#include <ISO_Fortran_binding.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The library's. */
int VELOC_Fortran_protect(int id, void *address, int64_t count, int64_t size, const char *name);
int VELOC_Adjoint_protect(int what, int id, void *address, size_t count, size_t size);
int VELOC_Fortran_refuse_section(int id);
int VELOC_Fortran_refuse_number(const char *what, int64_t number);

void veloc_fortran_protect_array(const int *id, const CFI_cdesc_t *array, int *err);
void veloc_fortran_protect_own_array(const int *id, const CFI_cdesc_t *array,
                                     const CFI_cdesc_t *name, int *err);
/* For default integers of 64 bits. */
void veloc_fortran_protect_array_long(const int64_t *id, const CFI_cdesc_t *array, int64_t *err);
void veloc_fortran_protect_own_array_long(const int64_t *id, const CFI_cdesc_t *array,
                                          const CFI_cdesc_t *name, int64_t *err);
void veloc_fortran_protect_adjoint_array(const int *what, const int *id, const CFI_cdesc_t *array,
                                         int *err);
void veloc_fortran_protect_adjoint_array_long(const int64_t *what, const int64_t *id,
                                              const CFI_cdesc_t *array, int64_t *err);

/* Longer than any name: what does not fit is refused by the library, for its length. */
enum { NAME = 1024 };

/* How many elements an array has; -1 if they do not lie side by side, with no gap in any dimension
   that has more than one. */
static int64_t count_of(const CFI_cdesc_t *array)
{
    int64_t count = 1, stride = (int64_t)array->elem_len;
    int dimension;
    for (dimension = 0; dimension < array->rank; dimension++) {
        const CFI_dim_t *along = &array->dim[dimension];
        if (along->extent > 1 && along->sm != stride)
            return -1;
        stride *= along->extent;
        count *= along->extent;
    }
    return count;
}

static int protect(int64_t long_id, const CFI_cdesc_t *array, const char *name)
{
    int id = (int)long_id;
    int64_t count = count_of(array);
    if (id != long_id)
        return VELOC_Fortran_refuse_number("id", long_id);
    if (count < 0)
        return VELOC_Fortran_refuse_section(id);
    return VELOC_Fortran_protect(id, array->base_addr, count, (int64_t)array->elem_len, name);
}

static int protect_adjoint(int64_t long_what, int64_t long_id, const CFI_cdesc_t *array)
{
    int what = (int)long_what, id = (int)long_id;
    int64_t count = count_of(array);
    if (what != long_what)
        return VELOC_Fortran_refuse_number("what", long_what);
    if (id != long_id)
        return VELOC_Fortran_refuse_number("id", long_id);
    if (count < 0)
        return VELOC_Fortran_refuse_section(id);
    return VELOC_Adjoint_protect(what, id, array->base_addr, (size_t)count, array->elem_len);
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

void veloc_fortran_protect_adjoint_array(const int *what, const int *id, const CFI_cdesc_t *array,
                                         int *err)
{
    *err = protect_adjoint(*what, *id, array);
}

void veloc_fortran_protect_adjoint_array_long(const int64_t *what, const int64_t *id,
                                              const CFI_cdesc_t *array, int64_t *err)
{
    *err = protect_adjoint(*what, *id, array);
}
