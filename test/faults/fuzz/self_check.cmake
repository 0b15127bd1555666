# Proves that the fuzzer would find a fault: decoders that are broken on purpose have to be found, each for its own
# reason. Then that each decoder that it knows has a test and a corpus, and that a name that it does not know is refused.

file(REMOVE_RECURSE ${FOUND})
file(MAKE_DIRECTORY ${FOUND})

function(expect_fault target line)
    execute_process(COMMAND ${FUZZER} --target=${target} -max_total_time=30 -artifact_prefix=${FOUND}/${target}-
                    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output TIMEOUT 60)
    if(result EQUAL 0)
        message(FATAL_ERROR "${target} was not found within 30 seconds:\n${output}")
    endif()
    if(NOT output MATCHES "${line}")
        message(FATAL_ERROR "${target} failed (${result}) for another reason than \"${line}\":\n${output}")
    endif()
    file(GLOB inputs ${FOUND}/${target}-crash-*)
    if(NOT inputs)
        message(FATAL_ERROR "${target} was found, and its input was not kept:\n${output}")
    endif()
endfunction()

expect_fault(broken-on-purpose "ERROR: AddressSanitizer: heap-buffer-overflow")
expect_fault(broken-exception "ERROR: libFuzzer: deadly signal")
expect_fault(broken-promise "broken promise: what was written is not what is read")

execute_process(COMMAND ${FUZZER} --list RESULT_VARIABLE result OUTPUT_VARIABLE names)
string(STRIP "${names}" names)
string(REPLACE "\n" ";" names "${names}")
string(REPLACE "," ";" tested "${DECODERS}")
if(NOT result EQUAL 0 OR NOT names STREQUAL tested)
    message(FATAL_ERROR "the tests are about ${tested}, and --list (${result}) says ${names}")
endif()
foreach(name IN LISTS names)
    file(GLOB seeds ${CORPUS}/${name}/*)
    if(NOT seeds)
        message(FATAL_ERROR "decoder ${name} has no corpus")
    endif()
endforeach()

execute_process(COMMAND ${FUZZER} --target=nonsense -runs=1 RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 2 OR NOT output MATCHES "There is no decoder 'nonsense'.*checkpoint-json")
    message(FATAL_ERROR "an unknown decoder is not refused (${result}): ${output}")
endif()
