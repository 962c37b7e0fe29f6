"""Programs that fetch data and models inside a pod."""
