# Installs favor into a folder of its own and builds the examples against it from outside: by find_package and by
# pkg-config. Run by ctest.
set(work ${BUILD}/package-test)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE}/examples -B ${work}/build -DCMAKE_PREFIX_PATH=${work}/prefix
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${work}/build)
file(GLOB examples ${SOURCE}/examples/*.cc)
foreach(example ${examples})
  get_filename_component(name ${example} NAME_WE)
  run(${work}/build/${name})
endforeach()

run(${work}/prefix/bin/favor --version)
if(NOT output MATCHES "favor ${VERSION}")
  message(FATAL_ERROR "installed tool says '${output}', expected version ${VERSION}")
endif()

find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  file(GLOB_RECURSE pc ${work}/prefix/*/favor.pc)
  get_filename_component(pc_dir ${pc} DIRECTORY)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc_dir}
                          ${PKG_CONFIG} --cflags --libs favor
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags)
  run(${COMPILER} ${SOURCE}/examples/features.cc -o ${work}/by-pkg-config ${flags})
  run(${work}/by-pkg-config)
endif()
