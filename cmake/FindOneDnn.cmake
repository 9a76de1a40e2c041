# oneDNN by header and library: the CMake file of Debian's package asks for OpenCL headers that the package does not
# bring along. Gives OneDnn::onednn.
find_path(OneDnn_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(OneDnn_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDnn REQUIRED_VARS OneDnn_LIBRARY OneDnn_INCLUDE_DIR)
if(OneDnn_FOUND AND NOT TARGET OneDnn::onednn)
  add_library(OneDnn::onednn UNKNOWN IMPORTED)
  set_target_properties(OneDnn::onednn PROPERTIES
    IMPORTED_LOCATION ${OneDnn_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${OneDnn_INCLUDE_DIR})
endif()
mark_as_advanced(OneDnn_INCLUDE_DIR OneDnn_LIBRARY)
