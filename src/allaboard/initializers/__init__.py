"""Programs that fetch data and models inside a pod: `python -m allaboard.initializers.dataset` and `.model`.

They need nothing but the standard library and their environment:

    STORAGE_URI         what to fetch: hf://, s3://, gs://, http(s)://, file:// or pvc://
    OUTPUT_DIR          where to put it (/workspace/dataset, /workspace/model)
    IGNORE_PATTERNS     names to leave out, separated by commas, with * and ?
    ACCESS_TOKEN        for Hugging Face, Google Cloud Storage and plain HTTP
    ENDPOINT            another server than the provider's own
    ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN, REGION, ROLE_ARN    for S3
    PVC_ROOT            where claims are mounted (/mnt/pvc)
    PARALLEL_DOWNLOADS  how many files at once (8)

What is there already and unchanged is not fetched again; a broken download goes on where it stopped; what the source
gives a checksum for is checked.
"""
