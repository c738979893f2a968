/*
 * What Fortran cannot say of an array of any type: the bytes of an element. Compiled by the C
 * compiler that belongs to the Fortran compiler, whose header this is.
 */
#include <ISO_Fortran_binding.h>
#include <stddef.h>

size_t veloc_fortran_element_size(const CFI_cdesc_t *array);

size_t veloc_fortran_element_size(const CFI_cdesc_t *array)
{
    return array->elem_len;
}
